"""Streams of server-sent events: splits streams into frames, renames topics, and joins several streams."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from gateway.api import Response
from gateway.names import Raws, Rename, decoded_id, encoded_id, renamed_event_id, renamed_id, with_names

LONGEST_FRAME = 4 * 1024 * 1024  # bytes: a server sends at most 256 KiB per frame, except for one large record
ID_LINE = re.compile(rb"^id: ?([^\n]+)\n", re.MULTILINE)
MOST_WAITING = 16  # frames of one source that wait for a slow client


class FrameTooLong(Exception):
    """A server sent a frame that is too long."""


async def frames(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the frames of a stream, each with its final empty line."""
    rest = b""
    async for part in body:
        rest += part
        *whole, rest = rest.split(b"\n\n")
        if len(rest) > LONGEST_FRAME:
            raise FrameTooLong
        for frame in whole:
            yield frame + b"\n\n"


class Frame:
    """One parsed frame. `data` is the JSON object of its data lines, or None."""

    __slots__ = ("data", "event", "id", "others")

    def __init__(self, frame: bytes) -> None:
        self.event = b""
        self.id: bytes | None = None
        self.others: list[bytes] = []  # comments, `retry`
        data: list[bytes] = []
        for line in frame.split(b"\n"):
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif name == b"event":
                self.event = value.strip()
            elif name == b"id":
                self.id = value.strip()
            elif line:
                self.others.append(line)
        self.data: bytes | None = b"\n".join(data) if data else None

    @property
    def has_position(self) -> bool:
        """Whether the id is a position. The event of a refusal has the id `error`."""
        return self.event != b"stream-error"

    def encoded(self) -> bytes:
        lines = list(self.others)
        if self.id is not None:
            lines.append(b"id: " + self.id)
        if self.event:
            lines.append(b"event: " + self.event)
        if self.data is not None:
            lines += [b"data: " + line for line in self.data.split(b"\n")]
        return b"\n".join(lines) + b"\n\n"

    def rename(self, rename: Rename) -> None:
        """Renames topics in the frame's data and id to the client's names."""
        if (self.data is not None and self.data.startswith((b'{"topic"', b'{"channels"'))) or self.event == b"error":
            with contextlib.suppress(msgspec.MsgspecError):
                self.data = msgspec.json.encode(with_names(msgspec.json.decode(self.data or b"{}", type=Raws), rename))
        if self.id and self.has_position:
            if b":" in self.id:
                self.id = renamed_event_id(self.id, rename)
            else:
                self.id = encoded_id(renamed_id(decoded_id(self.id.decode("latin-1")), rename))


class Frames:
    """A stream of changed frames. `change` returns the new frame, or None to drop the frame."""

    def __init__(self, source: Any, change: Callable[[Frame], bytes | None]) -> None:
        self.source, self.change = source, change
        self.frames = frames(source)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            changed = self.change(Frame(await self.frames.__anext__()))
            if changed:
                return changed

    async def aclose(self) -> None:
        await closed(self.source)


def renamed_frames(response: Response, rename: Rename) -> Frames:
    def change(frame: Frame) -> bytes:
        frame.rename(rename)
        return frame.encoded()

    return Frames(response.body, change)


class ChangedIds:
    """A stream in which `change` replaces each event id. All other bytes pass as they arrive, also partial frames."""

    def __init__(self, source: Any, change: Callable[[bytes], bytes]) -> None:
        self.source, self.change = source, change
        self.held = b""  # the start of a line that may be an id
        self.is_within_line = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            try:
                part = await self.source.__anext__()
            except StopAsyncIteration:
                rest, self.held = self.held, b""
                if rest:
                    return rest
                raise
            if changed := self.changed(part):
                return changed

    def changed(self, part: bytes) -> bytes:
        text, self.held = self.held + part, b""
        lines, newline, rest = text.rpartition(b"\n")
        lines += newline
        first = b""
        if self.is_within_line and lines:
            end = lines.index(b"\n") + 1
            first, lines = lines[:end], lines[end:]
        self.is_within_line = self.is_within_line and not newline
        if rest and not self.is_within_line:
            if b"id:".startswith(rest[:3]):
                if len(rest) > LONGEST_FRAME:
                    raise FrameTooLong
                self.held, rest = rest, b""
            self.is_within_line = bool(rest)
        return first + ID_LINE.sub(self.line, lines) + rest

    def line(self, found: re.Match[bytes]) -> bytes:
        return b"id: " + self.change(found[1]) + b"\n"

    async def aclose(self) -> None:
        await closed(self.source)


class Joined:
    """One watch stream from several sources, by route. Its ids contain the position in the topics of all sources.

    A slow client pauses the reading of all sources. The stream ends if any source ends or fails, and the client reconnects with
    its last id. `caught-up` events pass as they arrive, one per topic.
    """

    def __init__(
        self, sources: Mapping[str, tuple[Any, Rename]], position: dict[str, Any], heard: Collection[str] = ()
    ) -> None:
        """`position`: the client's Last-Event-ID, in the client's names. `heard`: the routes whose topics are in the id."""
        self.sources = dict(sources)
        self.position = dict(position)
        # Until each source has sent its position, frames get no id. In an id, a missing topic means that the client knows about
        # the topic's deletion.
        self.unheard = set(sources) - set(heard)
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self.putting = asyncio.Lock()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.tasks and not self.ended:
            loop = asyncio.get_running_loop()
            self.tasks = {route: loop.create_task(self.read(route, *each)) for route, each in self.sources.items()}
        if self.ended or (frame := await self.queue.get()) is None:
            await self.aclose()
            raise StopAsyncIteration
        return frame

    async def read(self, route: str, source: Any, rename: Rename) -> None:
        own: set[str] = set()
        try:
            async for each in frames(source):
                frame = Frame(each)
                frame.rename(rename)
                if not await self.passes(route, frame):
                    continue
                # Put frames one at a time, so that frames enter the queue in the order in which they advanced the position.
                async with self.putting:
                    if frame.id:
                        self.unheard.discard(route)
                        own = self.move(frame, own, route)
                    await self.queue.put(frame.encoded())
        finally:
            if not self.ended and route in self.sources:
                await self.queue.put(None)

    async def passes(self, route: str, frame: Frame) -> bool:
        """Returns whether a source's frame is for the client."""
        return True

    def is_of(self, route: str, topic: str) -> bool:
        """Returns whether a source still serves a topic."""
        return True

    def move(self, frame: Frame, own: set[str], route: str) -> set[str]:
        """Merges a source's position into the common position, which becomes the frame's id. Returns the source's topics."""
        assert frame.id is not None
        position = decoded_id(frame.id.decode("latin-1"))
        position = {topic: seq for topic, seq in position.items() if self.is_of(route, topic)}
        # If a source's id no longer contains a topic, the topic was deleted at the source.
        for name in own - position.keys():
            if self.is_of(route, name):
                self.position.pop(name, None)
        self.position |= position
        frame.id = encoded_id(self.position) if not self.unheard else None
        return set(position)

    async def aclose(self) -> None:
        self.ended = True
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        for source, _ in self.sources.values():
            await closed(source)


async def closed(source: Any) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


def is_stream(responses: Sequence[Response]) -> bool:
    return all((each.header(b"content-type") or b"").startswith(b"text/event-stream") for each in responses)
