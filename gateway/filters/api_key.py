"""ApiKey: replaces the client's credentials by a key of the upstream."""

from __future__ import annotations

import msgspec

from gateway.api import (
    FilterContext,
    FilterFactoryContext,
    Operation,
    PluginConfigError,
    Request,
    Response,
    without,
)


class ApiKeyConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """`keyFile`: a file that contains only the key."""

    key_file: str


class ApiKey:
    def __init__(self, header: bytes) -> None:
        self.header = (b"authorization", header)

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        query = request.query
        if "token=" in query:  # the client's own key, from an EventSource
            query = "&".join(each for each in query.split("&") if not each.startswith("token="))
        return request.replace(headers=[*without(request.headers, b"authorization"), self.header], query=query)

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        return response


class ApiKeyFactory:
    """Replaces the client's key by a key of the upstream."""

    places = frozenset(("route to a cluster",))
    once = True

    passes_upgrades = True

    def initialize(self, context: FilterFactoryContext, config: ApiKeyConfig) -> bytes:
        try:
            key = context.file(config.key_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise PluginConfigError(f"keyFile: {config.key_file} cannot be read: {error}") from error
        if not key or not key.isascii() or not key.isprintable():
            raise PluginConfigError(
                f"keyFile: {config.key_file} contains no key: write one line of printable ASCII into the file"
            )
        return b"Bearer " + key.encode()

    def create_filter(self, context: FilterFactoryContext, data: bytes) -> ApiKey:
        return ApiKey(data)

    def close(self, data: bytes) -> None:
        pass
