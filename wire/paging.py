"""Pages of lists, as the server's calls take and answer them (contract/listing.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, UnsetType

from contract.listing import ListFields, next_cursor
from wire.answer import clamped
from wire.request.parse import Request
from wire.schema import Clamped

T = TypeVar("T")
NextCursor = Annotated[str | UnsetType, Meta(description="`cursor` of the next page. Absent in the last page.")]


class PageQuery(ListFields, Request):
    """The page that a client asks for."""

    @property
    def clamped(self) -> Clamped:
        return clamped(page_size=(self.page_size, self.size))

    def page(self, found: Sequence[T], names: Callable[[T], tuple[str, ...]]) -> tuple[Sequence[T], str | UnsetType]:
        """Returns the entries of the page, and `next_cursor` if more follow.

        `found`: `size` entries and one more, if there is one. `names`: the names of an entry that order the list.
        """
        page = found[: self.size]
        return page, next_cursor(*names(page[-1])) if len(found) > self.size else UNSET
