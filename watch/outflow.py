"""Bounds the bytes that wait for stream clients which do not read.

A send returns as soon as the server's buffer has room (topics_project/serve.py), long before the client has the message. The
buffer can exceed its limit by one piece. We hold a frame until its last piece is sent. wire/process/sockets.py bounds the
kernel's part.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from django.conf import settings

from http1 import Writer
from wire import metrics
from wire.process import memory
from wire.process.sockets import untaken_bytes

PIECE_BYTES = 16 * 1024
UNSENT_BYTES = 192 * 1024  # unsent bytes of a stream in the server. Above this, the stream waits.
BELOW_BYTES = UNSENT_BYTES + 4 * PIECE_BYTES  # an upper bound of the bytes that the server holds of a stream
STALLED_SECONDS = 1.0  # a client that has taken no byte for so long is stalled
MOST_BYTES = settings.TOPICS_MAX_STALLED_BYTES


class Outflow:
    """The sending side of a stream. `waiting_since`: since when the current piece waits and the client takes no byte, or None."""

    __slots__ = ("is_cut", "waiting_bytes", "waiting_since", "writer")

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.is_cut = False
        self.waiting_since: float | None = None
        self.waiting_bytes = 0

    async def send(self, data: bytes) -> None:
        """Sends data, in pieces if there are more than PIECE_BYTES."""
        self.waiting_bytes = len(data)
        if self.waiting_bytes <= PIECE_BYTES:
            self.waiting_since = time.monotonic()
            await self.writer.write(data)
        else:
            for at in range(0, len(data), PIECE_BYTES):
                if self.is_cut:
                    break
                self.waiting_since = time.monotonic()
                await self.writer.write(data[at : at + PIECE_BYTES])
        self.waiting_since = None

    @property
    def transport(self) -> asyncio.Transport:
        return self.writer.transport

    def cut(self) -> None:
        """Ends the stream without another message, because the client takes no message."""
        self.is_cut = True
        self.writer.reset()


class Flowing(Protocol):
    """The sending side of an open stream: an Outflow, or a WebSocket."""

    is_cut: bool
    waiting_since: float | None

    @property
    def waiting_bytes(self) -> int: ...

    @property
    def transport(self) -> asyncio.Transport: ...

    def cut(self) -> None:
        """Ends the stream without another message, because the client takes no message."""


class Outflows:
    """The sending sides of all open streams of this process."""

    def __init__(self) -> None:
        self.open: dict[Flowing, int] = {}  # with the bytes that its client had not taken at the last look
        self.looked = 0.0  # when that was

    @contextlib.contextmanager
    def flowing(self, outflow: Outflow) -> Iterator[None]:
        """Lists the sending side of a stream until the block ends."""
        self.add(outflow)
        try:
            yield
        finally:
            self.remove(outflow)
            memory.let_go(BELOW_BYTES)  # an upper bound of the bytes that the client had not taken

    def add(self, outflow: Flowing) -> None:
        self.open[outflow] = 0

    def remove(self, outflow: Flowing) -> None:
        del self.open[outflow]

    async def shed(self) -> None:
        """Cuts off streams of stalled clients, the longest stalled first, until the waiting bytes are within MOST_BYTES.

        A client loses nothing by the cut: after a reconnect, the stream continues after the Last-Event-ID. A client that still
        reads is never cut off, however slowly. Its timer starts again if its kernel took bytes since the last look. So does the
        timer of a client that began to wait since the last look.
        """
        now = time.monotonic()
        waiting: list[tuple[float, Flowing]] = []
        for outflow, before in self.open.items():
            if outflow.waiting_since is None:
                continue
            untaken = untaken_bytes(outflow.transport)
            if untaken < before or outflow.waiting_since > self.looked:
                outflow.waiting_since = now
            self.open[outflow] = untaken
            waiting.append((outflow.waiting_since, outflow))
        self.looked = now
        stalled = sorted((each for each in waiting if each[0] <= now - STALLED_SECONDS), key=lambda each: each[0])
        held = sum(outflow.waiting_bytes + BELOW_BYTES for _, outflow in stalled)
        for _, outflow in stalled:
            if not 0 < MOST_BYTES < held:
                return
            held -= outflow.waiting_bytes + BELOW_BYTES
            if not outflow.is_cut:
                metrics.throttled("stalled_bytes")
                outflow.cut()


outflows = Outflows()
