"""CORS: lets the pages of other origins (CORS_ALLOWED_ORIGINS) call /v0 and follow its streams.

Only /v0 allows CORS, because its clients send a key. The admin uses a cookie, which a browser adds to every request of a page.
For the same reason no answer allows credentials. `Cors` wraps the app, only if the setting names an origin.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable

from http1 import Answering, Handler, Request, Response

# Methods and headers that a call of /v0 may use and that a browser does not send without a preflight.
METHODS = b"GET, HEAD, POST, PUT, DELETE"
HEADERS = b"authorization, content-type, content-encoding, idempotency-key, last-event-id, traceparent, x-request-id"
# An attribute of a CloudEvent in the binary mode. Its producer can name more than the standard has.
ATTRIBUTE = re.compile(rb"(?i)ce-[a-z0-9]+")
# Headers of answers that a page may read.
EXPOSED = b"retry-after, www-authenticate, content-length, topics-answer, topics-sealed, traceparent, x-request-id"
PREFLIGHT_SECONDS = 600  # for this time a browser can cache a preflight


class Cors:
    """A handler of requests around another. Pages of `origins` may read its answers."""

    def __init__(self, handler: Handler, origins: frozenset[bytes]) -> None:
        self.handler, self.origins = handler, origins

    def __call__(self, request: Request) -> Answering | Awaitable[Answering]:
        if not request.target.startswith(b"/v0/"):
            return self.handler(request)
        origin = request.header(b"origin") or b""
        if origin not in self.origins:
            # The browser hides the answer from the page. With `vary`, a cache keeps an answer for each origin.
            request.added.append((b"vary", b"origin"))
        elif request.method == "OPTIONS" and request.header(b"access-control-request-method") is not None:
            wanted = request.header(b"access-control-request-headers") or b""
            return Response(204, [*allowed(origin), *preflight(wanted)])
        else:
            request.added += (*allowed(origin), (b"access-control-expose-headers", EXPOSED))
        return self.handler(request)


def preflight(wanted: bytes) -> list[tuple[bytes, bytes]]:
    """Returns what a page may send. `wanted`: the names of the headers that the page wants to send."""
    attributes = [name for each in wanted.split(b",") if ATTRIBUTE.fullmatch(name := each.strip())]
    return [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", b", ".join([HEADERS, *attributes])),
        (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
    ]


def allowed(origin: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
