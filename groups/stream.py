"""The stream of a member over HTTP: sends the frames of a session as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from base.clock import now_ms
from groups import frames
from groups.joining import Joined
from groups.membership import Membership
from groups.share import Share
from watch.frames import event, heartbeat
from watch.hub import Hub
from watch.stream import body
from wire.keys import Key

HEARTBEAT_SECONDS = 15.0

Send = Callable[[dict[str, Any]], Awaitable[None]]


class MemberStream(Membership):
    """An event stream of a session. A single coroutine awaits `pump`, and the other methods wake the pump."""

    def __init__(self, hub: Hub, joined: Joined, key: Key, send: Send, cut: Callable[[], None]) -> None:
        """`cut` ends the connection without another message."""
        super().__init__(hub, joined, key)
        self.send, self.cut = send, cut
        self.is_sending = False
        self.sleep: asyncio.Future[None] | None = None
        self.sent_at = time.monotonic()
        self.timer = hub.loop.call_later(HEARTBEAT_SECONDS, self.beat)

    async def begin(self) -> None:
        self.say("joined", **self.joined.shown)
        await super().begin()

    def event(self, name: str, **data: Any) -> bytes:
        return event(name, topic=self.topic, **data)

    def record(self, share: Share, records: list[bytes], from_seq: int, to_seq: int, head_seq: int) -> bytes:
        return frames.record(self.topic, share.number, share.generation, records, from_seq, to_seq, head_seq)

    def refusal(self, code: str, message: str) -> bytes:
        return event("error", code=code, error=message)

    async def explain_end(self) -> None:
        await super().explain_end()
        if self.is_sending:
            self.cut()  # a frozen client would keep the connection open

    def beat(self) -> None:
        """Sends a comment if nothing was sent for HEARTBEAT_SECONDS."""
        left = self.sent_at + HEARTBEAT_SECONDS - time.monotonic()
        if left <= 0 and not self.is_sending:
            self.frames.append(heartbeat(now_ms()))
            self.wake()
        self.timer = self.hub.loop.call_later(left if left > 0 else HEARTBEAT_SECONDS, self.beat)

    async def pump(self) -> None:
        """Sends until the stream ends."""
        while True:
            if taken := self.next_frames():
                self.is_sending = True
                await self.send(body(b"".join(taken)))
                self.is_sending = False
                self.sent_at = time.monotonic()
            elif self.is_ending:
                return
            else:
                self.sleep = self.hub.loop.create_future()
                await self.sleep

    def close(self) -> None:
        super().close()
        self.timer.cancel()

    def wake(self) -> None:
        if self.sleep is not None and not self.sleep.done():
            self.sleep.set_result(None)
