"""Live parts of pages: a part is rendered every two seconds, once for all its viewers, and sent over SSE.

A part is the same template that the page includes, so a stream and a reload show the same. Without viewers, nothing is rendered.
An unchanged part is not sent. Each attempt to render sends the event `drawn`, with the age of what is shown, so that the browser
knows if a page is old. If viewers look at many different parts, each part is rendered less often. All parts together
therefore take a small share of the process's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from base.clock import now_ms
from base.errors import NotFound, TopicsError
from console.live.visitor import enter
from store.database import mend, translated
from store.threads import pages
from watch import frames
from watch.outflow import Outflow
from watch.pump import Pump, Send
from watch.registry import registry
from watch.serve import serve
from wire.streams import StreamCall

log = logging.getLogger(__name__)
PAUSE_SECONDS, MOST_PAUSE_SECONDS = 2.0, 20.0
# Rendering takes at most this share of a process's time, including the time of PostgreSQL. Above it, pauses become longer.
SHARE = 0.025
# After this time the browser reconnects, and its login is checked again. So a user who logged out gets no more updates.
MOST_SECONDS = 300.0
PREFIX = "/admin/stream/"


class PagePart(NamedTuple):
    """A part of a page: its permission, and its renderer for one object of the page (for example a topic)."""

    permission: str
    render: Callable[[str], str]
    event: str = "part"


PARTS: dict[str, PagePart] = {}  # by name; pages add theirs


def part(name: str, permission: str, event: str = "part") -> Callable[[Callable[[str], str]], Callable[[str], str]]:
    """Declares a part: a function from the object's name in the URL to HTML, or to JSON for a part with its own event."""

    def declare(render: Callable[[str], str]) -> Callable[[str], str]:
        PARTS[name] = PagePart(permission, render, event)
        return render

    return declare


class Board:
    """A part of an object, with its viewers. A board lives in an event loop, and ends with the last viewer."""

    def __init__(self, part: PagePart, subject: str) -> None:
        self.part, self.subject = part, subject
        self.viewers: dict[Viewer, None] = {}
        self.shown: bytes | None = None
        self.drawn_ts = now_ms()  # when `shown` was read, or when the first viewer came
        self.took_seconds = 0.0  # duration of the last rendering
        self.running = asyncio.create_task(self.run())

    async def run(self) -> None:
        while True:
            began_ts, next_ms = now_ms(), 0
            try:
                frame = frames.event(self.part.event, body=await pages.run(self.render))
            except Exception as error:
                if not isinstance(error, TopicsError) and translated(error) is None:
                    log.exception("A part of a page failed. The page shows its last state")
                # PostgreSQL is unavailable, or the object was deleted. The page keeps its last content and shows the content's
                # age. Without a `next_ms`, the browser does not wait for the next state before it calls the page old.
                fresh = None
            else:
                fresh = None if frame == self.shown else frame
                self.shown, self.drawn_ts = frame, began_ts
            pause = pause_seconds([each.took_seconds for each in _boards.values()])
            if self.drawn_ts == began_ts:
                next_ms = round(pause * 1000)
            for viewer in list(self.viewers):
                viewer.show(fresh, drawn(self.drawn_ts, next_ms))
            await asyncio.sleep(pause)

    def render(self) -> str:
        mend()
        began = time.perf_counter()
        try:
            return str.__str__(self.part.render(self.subject))  # str(), because a template returns a subclass of str
        finally:
            self.took_seconds = time.perf_counter() - began


def drawn(ts: int, next_ms: int) -> bytes:
    """Returns the event that tells the age of the content. `next_ms`: the time until the next content, if all goes well."""
    return frames.event("drawn", ts=ts, age_ms=max(now_ms() - ts, 0), next_ms=next_ms)


def pause_seconds(took_seconds: Iterable[float]) -> float:
    """Returns the pause before each part is rendered again, given the duration of each part's rendering."""
    return min(max(sum(took_seconds) / SHARE, PAUSE_SECONDS), MOST_PAUSE_SECONDS)


class Viewer(Pump):
    """One open page. A viewer keeps only the latest frame and its age, so a slow client misses older frames."""

    def __init__(self, send: Send) -> None:
        super().__init__(asyncio.get_running_loop(), send)
        self.frame: bytes | None = None
        self.drawn = b""

    def show(self, frame: bytes | None, drawn: bytes) -> None:
        """Sends the frame, unless it is None, and its age."""
        self.frame = frame or self.frame
        self.drawn = drawn
        self.wake()

    def next_frame(self) -> bytes | None:
        body, self.frame, self.drawn = (self.frame or b"") + self.drawn, None, b""
        return body or super().next_frame()


_boards: dict[tuple[str, str], Board] = {}


async def stream(call: StreamCall) -> None:
    """Serves GET /admin/stream/PART/SUBJECT to its end. Raises TopicsError before the response starts."""
    name, _, subject = call.path[len(PREFIX) :].partition("/")
    if name not in PARTS:
        raise NotFound("unknown part of a page")
    key = await enter(call, PARTS[name].permission)
    async with registry().place(key):
        outflow = Outflow(call.writer)
        viewer = Viewer(outflow.send)
        with looking(viewer, name, subject):
            await serve_for_a_while(viewer, outflow)


async def serve_for_a_while(stream: Pump, outflow: Outflow) -> None:
    """Serves a stream of the console, for at most MOST_SECONDS."""
    again = stream.loop.call_later(MOST_SECONDS, stream.hang_up)
    try:
        await serve(stream, outflow, None)
    finally:
        again.cancel()


@contextlib.contextmanager
def looking(viewer: Viewer, name: str, subject: str) -> Iterator[None]:
    """Adds a viewer to a board. The first viewer starts the board, and the last one stops it."""
    board = _boards.get((name, subject))
    if board is None:
        board = _boards[name, subject] = Board(PARTS[name], subject)
    board.viewers[viewer] = None
    if board.shown is not None:
        viewer.show(board.shown, drawn(board.drawn_ts, round(PAUSE_SECONDS * 1000)))
    try:
        yield
    finally:
        del board.viewers[viewer]
        if not board.viewers:
            del _boards[name, subject]
            board.running.cancel()


def encoded(value: Any) -> str:
    """Returns JSON, for a part that contains numbers instead of HTML."""
    return msgspec.json.encode(value).decode()
