"""Pages of other origins (CORS_ALLOWED_ORIGINS): a browser lets them call /v0, and follow its streams, when the answers say so.

Only /v0, where a key says who asks: the admin knows its visitors by a cookie, which goes along with whatever a page sends. For
the same reason no answer allows credentials. It stands around the front, and is not there at all unless an origin is named.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# What a call of /v0 may carry besides what a browser sends without asking first.
METHODS = b"GET, HEAD, POST, PUT, DELETE"
HEADERS = b"authorization, content-type, content-encoding, idempotency-key, last-event-id"
# What an answer has besides its body, and a page is to see.
EXPOSED = b"retry-after, www-authenticate, content-length, topics-sealed"
PREFLIGHT_SECONDS = 600  # for which a browser need not ask again


class Cors:
    """An ASGI application around another, whose answers pages of these origins may read."""

    def __init__(self, application: Application, origins: frozenset[bytes]) -> None:
        self.application, self.origins = application, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v0/"):
            await self.application(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        origin = headers.get(b"origin", b"")
        if origin not in self.origins:
            # The browser keeps the answer from the page. A cache must not give it to another page, nor keep theirs for this one.
            await self.application(scope, receive, with_headers(send, [(b"vary", b"origin")]))
        elif scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            await send({"type": "http.response.start", "status": 204, "headers": [*allowed(origin), *PREFLIGHT]})
            await send({"type": "http.response.body", "body": b""})
        else:
            told = [*allowed(origin), (b"access-control-expose-headers", EXPOSED)]
            await self.application(scope, receive, with_headers(send, told))


PREFLIGHT = [
    (b"access-control-allow-methods", METHODS),
    (b"access-control-allow-headers", HEADERS),
    (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
]


def allowed(origin: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"access-control-allow-origin", origin), (b"vary", b"origin")]


def with_headers(send: Send, more: list[tuple[bytes, bytes]]) -> Send:
    """As `send`, and the answer begins with these headers besides its own."""

    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending
