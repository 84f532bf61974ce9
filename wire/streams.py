"""Streams and WebSockets: calls with handlers that write the answer themselves, in the event loop."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from base.errors import NotAcceptable
from base.names import check_no_nul
from http1 import Request, Writer
from wire.access.entrance import who_follows
from wire.endpoint import Declaration
from wire.limits import under_way
from wire.process import shutdown
from wire.request import upload
from wire.request.parse import STRICT, NoFields, parse, parse_query
from wire.schema import EVENT_STREAM, Format, Shape


class StreamCall(NamedTuple):
    """A request for a stream or a WebSocket. Its handler answers through the writer, or raises before the first byte."""

    request: Request
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    writer: Writer

    @property
    def last_id(self) -> str:
        """Returns the header Last-Event-ID, or an empty string."""
        return self.headers.get(b"last-event-id", b"").decode("latin-1").strip()


Opening = Callable[[StreamCall], Awaitable[None]]


@dataclass(eq=False)
class StreamEndpoint(Declaration):
    """A stream of /v0, and the decorator that declares it. The schema shows the handler's docstring.

    The handler gets the call, its key, its query, and the names in its path. It serves the stream to its end.
    `parsed`: the shape of the query with the fields that the schema does not show.
    """

    _: KW_ONLY
    query: Shape
    answers: dict[int, Shape | str | tuple[Shape | Format | str, ...]] = field(
        default_factory=lambda: {200: EVENT_STREAM}
    )
    parsed: Shape | None = None
    handler: Callable[..., Awaitable[None]] = field(init=False)

    def __call__(self, handler: Callable[..., Awaitable[None]]) -> StreamEndpoint:
        self.handler = handler
        self.summary = inspect.cleandoc(handler.__doc__ or "")
        return self

    async def open(self, call: StreamCall, *names: str) -> None:
        """Checks a call, and serves its stream. Raises TopicsError before the answer starts."""
        shutdown.check()
        key = await who_follows(call.query, call.request.origin, call.headers)
        check_accept(call.headers)
        check_no_nul(names)
        query = parse_query(call.query, self.parsed or self.query)
        with under_way(key.holder) as held:
            body = await upload.read(call.request, call.headers, upload.SMALL, held)
        if STRICT:
            parse(body, NoFields)
        await self.handler(call, key, query, *names)


def check_accept(headers: dict[bytes, bytes]) -> None:
    """Raises NotAcceptable unless the client accepts an event stream. A client without an Accept header accepts anything."""
    accepted = headers.get(b"accept", b"*/*").decode("latin-1").lower()
    for part in accepted.split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        if kind in ("text/event-stream", "text/*", "*/*") and "q=0" not in parameters:
            return
    raise NotAcceptable("a watch stream is text/event-stream: allow it in Accept")
