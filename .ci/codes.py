"""Writes the table of codes in docs/errors.md from the classes of the errors. `make docs` runs it; a test compares the page."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "errors.md"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tables import replaced  # noqa: E402

from base import errors  # noqa: E402

HEAD = "| status | code | cause and remedy |"


def page(text: str) -> str:
    """Returns the page with its table as the classes say it."""
    return replaced(text, HEAD, rows)


def rows() -> Iterator[str]:
    """Yields the row of each class with a code of its own, by status, then in the order of the source."""
    found = [each for each in vars(errors).values() if inspect.isclass(each) and "code" in vars(each)]
    for each in sorted(found, key=lambda each: each.status):
        if each is not errors.TopicsError:
            said = " ".join(str(each.__doc__).split())
            yield f"| {each.status} | `{each.code}` | {said.removesuffix('.')} |"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
