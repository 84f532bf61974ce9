// The browsable API: opens the first tab of each form. Without this, only the first form of a page is open.
"use strict";
$(".form-switcher").each((_, tabs) => $(tabs).find("a:first").tab("show"));
