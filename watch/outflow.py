"""How much of a stream is on its way to a client that does not read, and what is done when it is too much.

The web server below us takes a message as soon as it has room, long before the client has it. What it may hold of one
stream is its write buffer (208 KiB, topics_project/supervisor.py), the piece that went into that last, one more in
line, and the one that our send() waits with: with pieces of 16 KiB that makes 256 KiB. The frame that the pieces are
cut from is ours, and is let go with its last piece. The kernel's part is bounded in wire/sockets.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from wire import metrics, sockets

PIECE_BYTES = 16 * 1024
BELOW_BYTES = 256 * 1024  # what the web server may hold of a stream
STALLED_SECONDS = 1.0  # a reader that has taken no piece for so long does not keep up
MOST_BYTES = settings.TOPICS_MAX_STALLED_BYTES

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Outflow:
    """What one stream sends. `waiting_since`: since when the latest piece waits for the reader; None while none does."""

    __slots__ = ("_send", "client", "is_cut", "server", "task", "waiting_bytes", "waiting_since")

    def __init__(self, scope: dict[str, Any], send: Send) -> None:
        self._send = send
        # A connection of HTTP/2 carries other streams, too: it is not ours to shut down.
        alone = not scope.get("http_version", "1.1").startswith("2")
        self.client: Any = scope.get("client") if alone else None
        self.server: Any = scope.get("server")
        self.task = asyncio.current_task()
        self.is_cut = False
        self.waiting_since: float | None = None
        self.waiting_bytes = 0

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message, in pieces if it is larger than one."""
        body: bytes = message.get("body", b"")
        self.waiting_bytes = len(body)
        if self.waiting_bytes <= PIECE_BYTES:
            self.waiting_since = time.monotonic()
            await self._send(message)
        else:
            last = len(body) - PIECE_BYTES
            for at in range(0, len(body), PIECE_BYTES):
                if self.is_cut:
                    break
                more = at < last or message.get("more_body", False)
                self.waiting_since = time.monotonic()
                await self._send({"type": message["type"], "body": body[at : at + PIECE_BYTES], "more_body": more})
        self.waiting_since = None

    def cut(self) -> None:
        """End the stream without another word: its reader takes none."""
        self.is_cut = True
        if self.client is not None and self.server is not None and sockets.cut(self.client, self.server):
            return
        if self.task is not None:  # one of several on its connection: it ends with its task, at the least
            self.task.cancel()


class Outflows:
    """Those of all open streams of this process."""

    def __init__(self) -> None:
        self.open: dict[Outflow, None] = {}

    async def shed(self) -> None:
        """Cut the streams whose readers take nothing, the longest stalled first, until the rest is within bounds.

        A reader that is cut off loses nothing: it goes on from its Last-Event-ID when it connects again. Who reads,
        however slowly, is never cut: each piece that is taken counts.
        """
        before = time.monotonic() - STALLED_SECONDS
        waiting = [(outflow.waiting_since, outflow) for outflow in self.open if outflow.waiting_since is not None]
        stalled = sorted((each for each in waiting if each[0] <= before), key=lambda each: each[0])
        held = sum(outflow.waiting_bytes + BELOW_BYTES for _, outflow in stalled)
        for _, outflow in stalled:
            if not 0 < MOST_BYTES < held:
                return
            held -= outflow.waiting_bytes + BELOW_BYTES
            if not outflow.is_cut:
                metrics.throttled("stalled_bytes")
                outflow.cut()


outflows = Outflows()
