"""An open stream: sends frames at the client's pace, and a heartbeat if there are none."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import ClassVar

from base.clock import now_ms
from watch import frames

HEARTBEAT_SECONDS = 15.0
BEAT_SLACK_SECONDS = 0.005  # a heartbeat may be so much early, because timers are not exact
HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Send = Callable[[bytes], Awaitable[None]]


class Pump:
    """A stream of server-sent events. Each kind of stream has its own `next_frame`.

    A single coroutine awaits `begin` and then `run`. Nothing else sends. All other methods never wait: they queue frames or
    change the state, and wake the coroutine, which looks at everything again. So a second wake does no harm.
    """

    headers: ClassVar[tuple[tuple[bytes, bytes], ...]] = HEADERS
    opening: ClassVar[bytes] = frames.RETRY  # sent at once, so that proxies pass on the head

    def __init__(
        self, loop: asyncio.AbstractEventLoop, send: Send, heartbeat_seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        """`send` returns when the client's side may get more."""
        self.loop, self.send, self.heartbeat_seconds = loop, send, heartbeat_seconds
        self.frames: deque[Callable[[], bytes]] = deque()
        self.is_sending = False
        self.is_ending = False  # the stream ends after the queued frames
        self.was_cut = False  # the stream was ended because its client took nothing
        self.sent_at = time.monotonic()  # when the last send returned
        self.sleep: asyncio.Future[None] | None = None
        self.timer = loop.call_later(heartbeat_seconds, self.beat)

    async def begin(self) -> None:
        """Finds out where to start. Raises TopicsError for a stream that cannot."""

    async def run(self) -> None:
        """Sends until the stream ends."""
        while True:
            frame = self.next_frame()
            if frame is not None:
                self.is_sending = True
                await self.send(frame)
                self.is_sending = False
                self.sent_at = time.monotonic()
                self.sent(len(frame))
            elif self.is_ending:
                return
            else:
                await self.rest()

    def next_frame(self) -> bytes | None:
        """Returns the bytes to send next, or None if there are none yet."""
        return self.frames.popleft()() if self.frames else None

    def sent(self, size: int) -> None:
        """So many bytes were sent."""

    async def rest(self) -> None:
        """Waits until the stream is woken, because it has nothing to send."""
        self.sleep = self.loop.create_future()
        await self.sleep

    def wake(self) -> None:
        if self.sleep is not None and not self.sleep.done():
            self.sleep.set_result(None)

    def queue(self, frame: Callable[[], bytes]) -> None:
        """Queues a frame that is made when it is sent."""
        self.frames.append(frame)
        self.wake()

    def say(self, frame: bytes) -> None:
        self.queue(lambda: frame)

    def beat(self) -> None:
        """Sends a heartbeat if nothing was sent for `heartbeat_seconds`."""
        left = self.heartbeat_seconds - (time.monotonic() - self.sent_at)
        if left > BEAT_SLACK_SECONDS:
            self.timer = self.loop.call_later(left, self.beat)
            return
        if not self.is_sending:
            self.queue(self.heartbeat)
        self.timer = self.loop.call_later(self.heartbeat_seconds, self.beat)

    def heartbeat(self) -> bytes:
        return frames.heartbeat(now_ms())

    def end(self, code: str | int, message: str) -> None:
        """Sends an `error` event and ends the stream after the frames that are already queued."""
        if not self.is_ending:
            self.say(frames.event("error", code=code, error=message))
            self.is_ending = True

    def hang_up(self) -> None:
        """The client has disconnected."""
        self.is_ending = True
        self.frames.clear()
        self.wake()

    def close(self) -> None:
        """The stream has ended."""
        self.is_ending = True
        self.timer.cancel()
