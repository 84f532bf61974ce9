"""Streams of server-sent events, split into frames."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from base.errors import NotAcceptable
from gateway.api import Request, Response

STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
LONGEST_FRAME = 4 * 1024 * 1024  # bytes: a server sends at most 256 KiB per frame, except for one large record
ID_LINE = re.compile(rb"^id: ?([^\n]+)\n", re.MULTILINE)


class FrameTooLong(Exception):
    """A server sent a frame that is too long."""


def check_accept(request: Request) -> None:
    """Raises NotAcceptable if the client does not accept an event stream."""
    accept = request.header(b"accept")
    if accept and not any(each in accept for each in (b"text/event-stream", b"text/*", b"*/*")):
        raise NotAcceptable("a stream is text/event-stream: allow it in Accept")


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
        if self.event:
            lines.append(b"event: " + self.event)
        if self.data is not None:
            lines += [b"data: " + line for line in self.data.split(b"\n")]
        if self.id is not None:  # behind the data, as contract/sse.py explains
            lines.append(b"id: " + self.id)
        return b"\n".join(lines) + b"\n\n"


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


async def closed(source: Any) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


def is_stream(responses: Sequence[Response]) -> bool:
    return all((each.header(b"content-type") or b"").startswith(b"text/event-stream") for each in responses)
