"""The stream of a member: reads the topic through the shared readings of the feeds, and sends the records of the member's shares.

The shares of a member can have different positions. A read starts at the position of the share that has waited longest for a
read, and advances every share whose position is in the window. So a share with a large backlog does not delay the others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from base.clock import now_ms
from groups import frames
from groups.joining import Joined
from groups.partition import partition_of
from groups.sessions import Looked, Settled
from groups.share import Share
from topics.diff import Window
from watch.feeds import Batch, Reading, View
from watch.frames import event, heartbeat
from watch.hub import Hub
from watch.position import RETRY_SECONDS
from watch.sessions import MAX_BATCH_BYTES
from watch.stream import body
from wire.keys import Key

LIMIT = 256  # records of a read
HEARTBEAT_SECONDS = 15.0

Send = Callable[[dict[str, Any]], Awaitable[None]]


class MemberStream:
    """A session's stream, in the hub's event loop.

    A single coroutine awaits `pump`. The hub, the feeds, the roster, the registry and timers call the other methods meanwhile.
    They never wait. They change the state and wake the pump.

    `lease_until`: until this moment of the monotonic clock the session cannot time out. Afterwards the stream sends no record,
    because the shares may have another owner by then.
    """

    def __init__(self, hub: Hub, joined: Joined, key: Key, send: Send, cut: Callable[[], None]) -> None:
        """`cut` ends the connection without another message."""
        self.hub, self.joined, self.key, self.send, self.cut = hub, joined, key, send, cut
        self.topic_id, self.topic = joined.topic_id, joined.topic
        self.partition = partition_of(joined.partition_by, joined.partitions)
        self.view = View(LIMIT, MAX_BATCH_BYTES, None, None, True, True, True, False, key.prefixes)
        self.since = time.monotonic()
        self.shares: dict[int, Share] = {}
        self.lease_until = 0.0
        self.reads = 0
        self.reading: Reading | None = None
        self.reading_seq = 0
        self.resting_until = 0.0  # after a failed read
        self.frames: deque[bytes] = deque()
        self.is_sending = self.is_ending = False
        self.sleep: asyncio.Future[None] | None = None
        self.sent_at = time.monotonic()
        self.timer = hub.loop.call_later(HEARTBEAT_SECONDS, self.beat)

    async def begin(self) -> None:
        """Follows the topic, and queues the event `joined`."""
        self.hub.follow(self.topic_id, self)
        joined = self.joined
        self.say(
            "joined",
            group=joined.group,
            member=joined.member,
            session=joined.session,
            session_ms=joined.session_ms,
            partitions=joined.partitions,
            partition_by=joined.partition_by,
        )
        head_seq = await self.hub.head(self.topic_id)
        if head_seq is None:
            self.vanished()
        else:
            self.hub.heads[self.topic_id] = max(head_seq, self.hub.heads.get(self.topic_id, 0))

    # -- Called by the hub, the feeds, the registry and timers --------------------------------------------------------

    def heard(self, head_seq: int) -> None:
        self.wake()

    def vanished(self) -> None:
        """The topic was deleted, and the group with it."""
        if not self.is_ending:
            self.say("topic-deleted", reason="deleted")
            self.hang_up(keep_frames=True)

    def reading_done(self) -> None:
        self.wake()

    def end(self, code: str, message: str) -> None:
        """Sends an `error` event and ends the stream. A client that takes nothing is cut off."""
        if not self.is_ending:
            self.frames.append(event("error", code=code, error=message))
            self.hang_up(keep_frames=True)

    def hang_up(self, keep_frames: bool = False) -> None:
        """Ends the stream, at once or after the queued frames."""
        self.is_ending = True
        if not keep_frames:
            self.frames.clear()
        self.wake()

    def say(self, name: str, **data: Any) -> None:
        self.frames.append(event(name, topic=self.topic, **data))
        self.wake()

    def beat(self) -> None:
        """Sends a comment if nothing was sent for HEARTBEAT_SECONDS."""
        left = self.sent_at + HEARTBEAT_SECONDS - time.monotonic()
        if left <= 0 and not self.is_sending:
            self.frames.append(heartbeat(now_ms()))
            self.wake()
        self.timer = self.hub.loop.call_later(left if left > 0 else HEARTBEAT_SECONDS, self.beat)

    # -- Called by the roster -----------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        return sum(share.in_flight for share in self.shares.values())

    @property
    def is_idle(self) -> bool:
        """Whether the stream is open, and no record waits for a commit."""
        return not self.is_ending and not self.in_flight

    def found(self, looked: Looked | None) -> None:
        """Takes over the state of the session from PostgreSQL. None: the session has ended."""
        if self.is_ending:
            return
        if looked is None:
            self.shares.clear()
            self.hub.soon(self.explain_end)
            return
        self.lease_until = looked.until
        gained, revoked = [], []
        for owned in looked.shares:
            share = self.shares.get(owned.share)
            if share is None or share.generation != owned.generation:
                share = self.shares[owned.share] = Share(owned.share, owned.generation, owned.seq)
                gained.append(share)
            elif share.is_revoked and not owned.is_revoked:
                gained.append(share)
            share.committed(owned.seq)
            if owned.is_revoked and not share.is_revoked:
                revoked.append(share)
            share.is_revoked, share.turn = owned.is_revoked, owned.turn
        numbers = {owned.share for owned in looked.shares}
        for number in self.shares.keys() - numbers:
            del self.shares[number]
        self.tell("assigned", gained)
        self.tell("revoked", revoked)
        self.wake()

    async def explain_end(self) -> None:
        """Ends the stream of a session that has ended."""
        if await self.hub.head(self.topic_id) is None:
            self.vanished()
        else:
            message = "the session has ended: it timed out, another stream took the member's name, or the member left"
            self.end("session_ended", message)
        if self.is_sending:
            self.cut()  # a frozen client would keep the connection open

    def tell(self, name: str, shares: list[Share]) -> None:
        if shares:
            told = [{"share": each.number, "generation": each.generation, "seq": each.committed_seq} for each in shares]
            self.say(name, group=self.joined.group, shares=told)

    def committed(self, share: int, generation: int, seq: int) -> None:
        """Notes a commit that this process has answered."""
        held = self.shares.get(share)
        if held is not None and held.generation == generation:
            held.committed(seq)
            self.wake()

    def drained(self) -> Iterator[Settled]:
        """Yields the shares that this stream has stopped since the last call of the roster, with the last seq that it sent."""
        for share in self.shares.values():
            if share.is_revoked and share.drained_turn != share.turn:
                yield self.settled(share, share.turn, share.sent_seq)

    def advanced(self) -> Iterator[Settled]:
        """Yields the shares whose cursors are behind only because the records above belong to other shares."""
        for share in self.shares.values():
            if not share.is_revoked and not share.waiting and share.position > share.committed_seq:
                yield self.settled(share, None, None)

    def settled(self, share: Share, turn: int | None, drain_seq: int | None) -> Settled:
        seq = None if share.waiting else share.position
        return Settled(self.joined.group_id, share.number, share.generation, seq, turn, drain_seq)

    def noted(self, row: Settled) -> None:
        """PostgreSQL has this row of drained() or advanced()."""
        share = self.shares.get(row.share)
        if share is not None and share.generation == row.generation:
            if row.turn is not None:
                share.drained_turn = row.turn
            if row.seq is not None:
                share.committed(row.seq)

    # -- The stream itself --------------------------------------------------------------------------------------------

    async def pump(self) -> None:
        """Sends until the stream ends."""
        while True:
            message = self.next_frame()
            if message:
                self.is_sending = True
                await self.send(body(message))
                self.is_sending = False
                self.sent_at = time.monotonic()
            elif self.is_ending:
                return
            else:
                self.sleep = self.hub.loop.create_future()
                await self.sleep

    def close(self) -> None:
        self.is_ending = True
        self.timer.cancel()
        self.hub.leave(self.topic_id, self)

    def wake(self) -> None:
        if self.sleep is not None and not self.sleep.done():
            self.sleep.set_result(None)

    def next_frame(self) -> bytes:
        """Returns the next bytes to send, which are empty if there are none yet."""
        while not self.frames and not self.is_ending:
            if self.reading is None and not self.ask():
                return b""
            reading = self.reading
            if reading is None or not reading.done:
                return b""
            self.reading = None
            if frame := self.take(reading):
                return frame
        return self.frames.popleft() if self.frames else b""

    def ask(self) -> bool:
        """Asks for the next reading. Returns False if the stream may not read now, or has nothing to read."""
        now = time.monotonic()
        if now >= self.lease_until or now < self.resting_until or self.in_flight >= self.joined.max_in_flight:
            return False
        head_seq = self.hub.heads.get(self.topic_id, 0)
        behind = [share for share in self.shares.values() if not share.is_revoked and share.position < head_seq]
        if not behind:
            return False
        self.reading_seq = min(behind, key=lambda share: (share.read_at, share.position)).position
        self.reading = self.hub.feeds.ask(self.topic, self.topic_id, self.reading_seq, self.view, self.since)
        if not self.reading.done:
            self.reading.waiting.append(self)
        return True

    def take(self, reading: Reading) -> bytes:
        """Advances the shares by a reading. Returns the events to send."""
        if reading.error is not None:
            self.resting_until = time.monotonic() + RETRY_SECONDS
            self.hub.loop.call_later(RETRY_SECONDS, self.wake)
            return b""
        if reading.batch is None:
            self.vanished()
            return b""
        if time.monotonic() >= self.lease_until:
            return b""
        self.reads += 1
        window = reading.batch.window.for_a_start_at(self.reading_seq)
        within = [
            share
            for share in self.shares.values()
            if not share.is_revoked and self.reading_seq <= share.position < window.next_from_seq
        ]
        return b"".join(frame for share in within for frame in self.advance(share, window, reading.batch))

    def advance(self, share: Share, window: Window, batch: Batch) -> Iterator[bytes]:
        """Advances a share to the end of a window. Yields the events to send."""
        share.read_at = self.reads
        if window.lost is not None and share.position < window.gap_to:
            yield event(
                "tombstone",
                topic=self.topic,
                share=share.number,
                generation=share.generation,
                reason=window.lost,
                **window.gap(share.position),
                earliest_seq=window.earliest_seq,
                head_seq=window.head_seq,
            )
            share.position = window.gap_to
            share.sent(window.gap_to, 1)
        pieces = self.partition.divide(batch).get(share.number, ())
        records = [piece for piece in pieces if piece.seq > share.position]
        if records:
            texts = [piece.text for piece in records]
            seqs = (share.position, window.next_from_seq, window.head_seq)
            yield frames.record(self.topic, share.number, share.generation, texts, *seqs)
            share.sent(records[-1].seq, len(records))
        share.position = window.next_from_seq
