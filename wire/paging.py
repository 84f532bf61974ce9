"""Pages of lists, as the server's calls take and answer them (contract/listing.py)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, UnsetType

from contract.listing import ListFields
from wire.answer import clamped
from wire.request.parse import Request
from wire.schema import Clamped

NextCursor = Annotated[str | UnsetType, Meta(description="`cursor` of the next page. Absent in the last page.")]


class PageQuery(ListFields, Request):
    """The page that a client asks for."""

    @property
    def clamped(self) -> Clamped:
        return clamped(page_size=(self.page_size, self.size))
