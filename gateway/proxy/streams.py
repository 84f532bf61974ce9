"""Open streams and the one rule for them (docs/gateway.md, "Open streams").

A stream stays open as long as a new request would take its way. If the way changes or ends, the stream moves, or it ends with an
event so that the client connects again. A router that can move a stream does so itself (routers/migrate/streams.py). This module
ends all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from base.errors import ShuttingDown
from gateway.api import Filter, FilterContext, Request, Router
from gateway.configuration.graph import VirtualClusterPlace
from gateway.rewrite.frames import closed
from http1 import Answer, BrokenOff, Failure

log = logging.getLogger(__name__)
CHECK_SECONDS = 1.0
AT_ONCE = 100  # streams that are checked before other work gets its turn


class End(NamedTuple):
    """Why a stream ends, as the client's last event tells. After `shutting_down` the client connects again."""

    code: str
    message: str

    @property
    def frame(self) -> bytes:
        return b"event: error\ndata: %b\n\n" % msgspec.json.encode(self._asdict())

    @property
    def is_final(self) -> bool:
        return self.code != ShuttingDown.code


STOPPED = End("shutting_down", "this gateway is shutting down: connect again to another gateway")
CHANGED = End("shutting_down", "the way of this stream through the gateway has changed: connect again")
REFUSED = End("unauthorized", "the key of this stream was removed or changed, or has expired")


@dataclass(eq=False)
class Way:
    """The way of one stream through the graph: the filters that let it pass, and the routes that routers chose for it."""

    site: VirtualClusterPlace
    passed: list[tuple[Filter, FilterContext]] = field(default_factory=list)
    led: list[tuple[Router, str, Request]] = field(default_factory=list)

    def change(self) -> End | None:
        """Returns why the stream must end, or None if a new request would take this way."""
        if self.site.retired:
            return CHANGED
        try:
            if not all(filter_.still_allows(context) for filter_, context in self.passed):
                return REFUSED
            if not all(router.still_leads_to(route, request) for router, route, request in self.led):
                return CHANGED
        except Exception:
            log.exception("A plugin failed on an open stream. The stream ends")
            return CHANGED
        return None


class OpenStream(Protocol):
    """A stream of events, or an upgraded connection (tunnel.Tunnel)."""

    way: Way

    def end(self, why: End) -> None:
        """Ends the stream soon. A second call changes nothing."""
        ...


def enter(stream: OpenStream) -> None:
    """Adds a new stream. Its virtual cluster may have been retired while the stream began."""
    site = stream.way.site
    site.streams.add(stream)
    if site.retired:
        stream.end(CHANGED)


def leave(stream: OpenStream) -> None:
    site = stream.way.site
    site.streams.discard(stream)
    site.close_if_unused()


def end_all(site: VirtualClusterPlace, why: End) -> None:
    for stream in list(site.streams):
        stream.end(why)


async def check(sites: Iterable[VirtualClusterPlace]) -> None:
    """Ends the streams whose way has changed."""
    for number, stream in enumerate([each for site in sites for each in site.streams], 1):
        if (why := stream.way.change()) is not None:
            stream.end(why)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


class Ended(Exception):
    """The gateway ends the stream."""


class Events:
    """A stream of events to a client. Its last event says why the gateway ended it.

    Raises BrokenOff if the client shall connect again, and if the server's connection was cut. Some clients never connect again
    after a clean end.
    """

    def __init__(self, way: Way, body: Any) -> None:
        self.way, self.body = way, body
        self.at_boundary, self.has_ended = True, False
        self.reading: asyncio.Future[bytes] | None = None
        self.why: End | None = None
        enter(self)

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> bytes:
        if self.has_ended:
            raise self.last()
        try:
            part = await self.part()
        except Ended:
            if not self.at_boundary:
                raise BrokenOff from None
            self.has_ended = True
            assert self.why is not None
            return self.why.frame
        except Failure as failure:
            if failure.kind != "closed":
                raise
            raise BrokenOff from failure
        self.at_boundary = part.endswith(b"\n\n")
        return part

    def last(self) -> Exception:
        """Returns the end behind the last event: a cut, if the client shall connect again."""
        return StopAsyncIteration() if self.why is None or self.why.is_final else BrokenOff()

    async def part(self) -> bytes:
        """Returns the next part of the stream. Raises Ended when the gateway ends the stream, and StopAsyncIteration."""
        if isinstance(self.body, Streamed):
            return await self.body.__anext__()
        if self.is_ending():
            raise Ended
        # The gateway created this stream from streams of servers, so an end must cancel the read.
        self.reading = asyncio.ensure_future(self.body.__anext__())
        try:
            return await self.reading
        except asyncio.CancelledError:
            if self.is_ending() and self.reading.cancelled():
                raise Ended from None
            self.reading.cancel()
            raise
        finally:
            self.reading = None

    def is_ending(self) -> bool:
        return self.why is not None

    def end(self, why: End) -> None:
        if self.is_ending():
            return
        self.why = why
        if isinstance(self.body, Streamed):
            self.body.answer.body.fail(Ended())
        elif self.reading is not None:
            self.reading.cancel()

    async def aclose(self) -> None:
        leave(self)
        await closed(self.body)


class Streamed:
    """A body that is passed on in pieces. `aclose` cancels the body, also before the first piece.

    A body that nobody reads any more is cancelled, too: no deadline would end its connection, which waits for a reader.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer, self.loop = answer, asyncio.get_running_loop()

    def __del__(self) -> None:
        if not self.answer.body.complete:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and its connections with it
                self.loop.call_soon_threadsafe(self.answer.close)  # the garbage collector runs in any thread

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if part := await self.answer.body.next():
            return part
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.answer.close()
