"use strict";

// A file of its own, because the page's Content-Security-Policy allows no script inside the page. docs.js uses `ui`.
const ui = SwaggerUIBundle({
  url: "/v0/schema",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
});
