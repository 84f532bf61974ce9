"""CORS: lets the pages of other origins (CORS_ALLOWED_ORIGINS) call /v0 and follow its streams.

Only /v0 allows CORS, because its clients send a key. The admin uses a cookie, which a browser adds to every request of a page.
For the same reason no answer allows credentials. `Cors` wraps the app, only if the setting names an origin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Methods and headers that a call of /v0 may use and that a browser does not send without a preflight.
METHODS = b"GET, HEAD, POST, PUT, DELETE"
HEADERS = b"authorization, content-type, content-encoding, idempotency-key, last-event-id"
# Headers of answers that a page may read.
EXPOSED = b"retry-after, www-authenticate, content-length, topics-sealed"
PREFLIGHT_SECONDS = 600  # for this time a browser can cache a preflight


class Cors:
    """An ASGI application around another. Pages of `origins` may read its answers."""

    def __init__(self, application: Application, origins: frozenset[bytes]) -> None:
        self.application, self.origins = application, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v0/"):
            await self.application(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        origin = headers.get(b"origin", b"")
        if origin not in self.origins:
            # The browser hides the answer from the page. With `vary`, a cache keeps an answer for each origin.
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
    """Returns a `send` that adds these headers to the answer."""

    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending
