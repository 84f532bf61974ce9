"""Live parts of pages: a part is rendered every two seconds, once for all its viewers, and sent over SSE.

A part is the same template that the page includes, so a stream and a reload show the same. Without viewers, nothing is rendered.
An unchanged part is not sent. If viewers look at many different parts, each part is rendered less often. All parts together
therefore take a small share of the process's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from base.errors import NotFound, ShuttingDown, TopicsError
from console.visitor import enter
from store.database import mend, translated
from store.threads import pages
from watch import frames
from watch.outflow import Outflow
from watch.registry import registry
from watch.serve import HEADERS, disconnected, flowing
from wire import shutdown
from wire.keys import Key

log = logging.getLogger(__name__)
PAUSE_SECONDS, MOST_PAUSE_SECONDS = 2.0, 20.0
# Rendering takes at most this share of a process's time, including the time of PostgreSQL. Above it, pauses become longer.
SHARE = 0.025
HEARTBEAT_SECONDS = 15.0
# After this time the browser reconnects, and its login is checked again. So a user who logged out gets no more updates.
MOST_SECONDS = 300.0
PREFIX = "/admin/stream/"
Send = Callable[[dict[str, Any]], Any]


class Part(NamedTuple):
    """A part of a page: its permission, and its renderer for one object of the page (for example a topic)."""

    permission: str
    render: Callable[[str], str]
    event: str = "part"


PARTS: dict[str, Part] = {}  # by name; pages add theirs


def part(name: str, permission: str, event: str = "part") -> Callable[[Callable[[str], str]], Callable[[str], str]]:
    """Declares a part: a function from the object's name in the URL to HTML, or to JSON for a part with its own event."""

    def declare(render: Callable[[str], str]) -> Callable[[str], str]:
        PARTS[name] = Part(permission, render, event)
        return render

    return declare


class Board:
    """A part of an object, with its viewers. A board lives in an event loop, and ends with the last viewer."""

    def __init__(self, part: Part, subject: str) -> None:
        self.part, self.subject = part, subject
        self.viewers: dict[Viewer, None] = {}
        self.shown: bytes | None = None
        self.took_seconds = 0.0  # duration of the last rendering
        self.running = asyncio.create_task(self.run())

    async def run(self) -> None:
        while True:
            try:
                frame = frames.event(self.part.event, body=await pages.run(self.render))
            except Exception as error:
                if not isinstance(error, TopicsError) and translated(error) is None:
                    log.exception("A part of a page failed. The page shows its last state")
                # PostgreSQL is unavailable, or the object was deleted. The page keeps its last content and shows the content's
                # age.
            else:
                if frame != self.shown:
                    self.shown = frame
                    for viewer in list(self.viewers):
                        viewer.show(frame)
            await asyncio.sleep(pause_seconds([each.took_seconds for each in _boards.values()]))

    def render(self) -> str:
        mend()
        began = time.perf_counter()
        try:
            return str.__str__(self.part.render(self.subject))  # str(), because a template returns a subclass of str
        finally:
            self.took_seconds = time.perf_counter() - began


def pause_seconds(took_seconds: Iterable[float]) -> float:
    """Returns the pause before each part is rendered again, given the duration of each part's rendering."""
    return min(max(sum(took_seconds) / SHARE, PAUSE_SECONDS), MOST_PAUSE_SECONDS)


class Viewer:
    """One open page. A viewer keeps only the latest frame, so a slow client misses older frames."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.frame: bytes | None = None
        self.last = b""  # the event before the end
        self.is_ending = False
        self.woken = asyncio.Event()

    def show(self, frame: bytes) -> None:
        self.frame = frame
        self.woken.set()

    def end(self, code: str, message: str) -> None:
        """Ends the stream, because this process is about to exit. Same signature as the streams in the registry."""
        self.last, self.is_ending = frames.event("error", code=code, error=message), True
        self.woken.set()

    def hang_up(self) -> None:
        self.is_ending = True
        self.woken.set()

    async def pump(self, outflow: Outflow) -> None:
        ends = time.monotonic() + MOST_SECONDS
        while not self.is_ending and time.monotonic() < ends:
            try:
                await asyncio.wait_for(self.woken.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                await send_piece(outflow, b": hb\n\n")
                continue
            self.woken.clear()
            frame, self.frame = self.frame, None
            if frame is not None:
                await send_piece(outflow, frame)
        if self.last:
            await send_piece(outflow, self.last)


async def send_piece(outflow: Outflow, body: bytes) -> None:
    await outflow.send({"type": "http.response.body", "body": body, "more_body": True})


_boards: dict[tuple[str, str], Board] = {}
_open: dict[Ending, None] = {}  # streams that must end before this process exits


class Ending(Protocol):
    """A stream of the console."""

    key: Key

    def end(self, code: str, message: str) -> None: ...


def end_all() -> None:
    """Ends the streams of the console, because this process is about to exit."""
    for each in list(_open):
        each.end(ShuttingDown.code, "this server is shutting down: connect again to another server")


def busy() -> bool:
    """Returns True if streams of the console are open."""
    return bool(_open)


@contextlib.asynccontextmanager
async def admitted(stream: Ending) -> AsyncIterator[None]:
    """Runs an open stream: counts the stream against its user, and ends the stream before the process exits. Raises Throttled."""
    streams = registry()
    await streams.enter(stream.key)
    _open[stream] = None
    try:
        yield
    finally:
        del _open[stream]
        streams.exit(stream.key)


def key_of(user: Any) -> Key:
    """Returns the key under which a user's streams are counted."""
    return Key(f"user:{user.pk}", frozenset(("read",)))


async def stream(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """Serves GET /admin/stream/PART/SUBJECT to its end. Raises TopicsError before the response starts."""
    shutdown.check()
    name, _, subject = scope["path"][len(PREFIX) :].partition("/")
    if name not in PARTS:
        raise NotFound("unknown part of a page")
    viewer = Viewer(key_of(await enter(scope, PARTS[name].permission)))
    async with admitted(viewer):
        with flowing(scope, send) as outflow, looking(viewer, name, subject):
            gone = asyncio.ensure_future(disconnected(receive))
            gone.add_done_callback(lambda _: viewer.hang_up())
            try:
                await outflow.send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await send_piece(outflow, frames.RETRY)
                await viewer.pump(outflow)
                await outflow.send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                gone.cancel()


@contextlib.contextmanager
def looking(viewer: Viewer, name: str, subject: str) -> Iterator[None]:
    """Adds a viewer to a board. The first viewer starts the board, and the last one stops it."""
    board = _boards.get((name, subject))
    if board is None:
        board = _boards[name, subject] = Board(PARTS[name], subject)
    board.viewers[viewer] = None
    if board.shown is not None:
        viewer.show(board.shown)
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
