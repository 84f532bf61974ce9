"""ApiKey: replaces the client's credentials by a key of the upstream."""

from __future__ import annotations

import msgspec

from gateway.api import (
    FilterContext,
    FilterFactoryContext,
    Operation,
    Request,
    Response,
    without,
)
from gateway.watched_file import WatchedFile, opened
from wire.access.tokens import token_in


class ApiKeyConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The key of the upstream."""

    key_file: str
    """A file that contains only the key."""


class ApiKeyFilter:
    def __init__(self, header: WatchedFile[bytes]) -> None:
        self.header = header

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        _, query = token_in(request.query)  # the client's own key, from an EventSource
        return request.replace(
            headers=[*without(request.headers, b"authorization"), (b"authorization", self.header.value)], query=query
        )


class ApiKeyFactory:
    """Replaces the client's key by a key of the upstream."""

    places = frozenset(("route to a cluster",))
    once = True

    passes_upgrades = True

    def initialize(self, context: FilterFactoryContext, config: ApiKeyConfig) -> WatchedFile[bytes]:
        return opened(context, "keyFile", config.key_file, parse_key)

    def create_filter(self, context: FilterFactoryContext, data: WatchedFile[bytes]) -> ApiKeyFilter:
        return ApiKeyFilter(data)


def parse_key(text: str) -> bytes:
    """Returns the header with the key in a file's text. Raises ValueError."""
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError("contains no key: write one line of printable ASCII into the file")
    return b"Bearer " + key.encode()
