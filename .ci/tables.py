"""Tables of Markdown that are made from the code. The other writers of this folder use it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


def replaced(text: str, head: str, rows: Callable[[], Iterable[str]]) -> str:
    """Returns the text with other rows in each table that has this head line."""
    line = "|" + "---|" * (head.count("|") - 1)
    return re.sub(re.escape(head) + r"\n(?:\|.*\n)*", lambda _: "\n".join([head, line, *rows(), ""]), text)
