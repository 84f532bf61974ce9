"""Pages of lists, in the order of names, with `page_size` and an opaque `cursor` (docs/wire.md)."""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec
from msgspec import Meta

from base.errors import InvalidRequest

MAX_SIZE = 1000


class ListFields(msgspec.Struct):
    """The page that a client asks for."""

    page_size: Annotated[int, Meta(ge=1)] = 100
    """Entries of a page, at most 1000. A larger value gives 1000."""
    cursor: str = ""
    """`next_cursor` of the previous page. Empty: the first page."""

    @property
    def size(self) -> int:
        return min(self.page_size, MAX_SIZE)

    def after(self, length: int = 1) -> tuple[str, ...]:
        """Returns the names of the last entry before the page. `length`: the names that order the list. Raises InvalidRequest."""
        return read_cursor(self.cursor, length)


class ListTopicsFields(ListFields):
    prefix: str = ""
    """Only names that start with this prefix."""


def read_cursor(cursor: str, length: int) -> tuple[str, ...]:
    """Returns the `length` names in a cursor, all empty for an empty cursor. Raises InvalidRequest for an invalid cursor."""
    if not cursor:
        return ("",) * length
    try:
        after = msgspec.json.decode(base64.b64decode(cursor, altchars=b"-_", validate=True), type=list[str])
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidRequest("invalid cursor: this list gave out other cursors. Start without cursor") from error
    if len(after) != length or any("\0" in name for name in after):
        raise InvalidRequest("invalid cursor: this list gave out other cursors. Start without cursor")
    return tuple(after)


def next_cursor(*after: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(after)).decode()
