"""A session of a member: reads the topic through the shared readings of the feeds, and makes the frames of the member's shares.

The transport sends the frames at the client's pace: an event stream (stream.py), or a WebSocket (sockets/memberships.py).

The shares of a member can have different positions. A read starts at the position of the share that has waited longest for a
read, and advances every share whose position is in the window. So a share with a large backlog does not delay the others.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any

from contract.operations import EVENT_BYTES
from groups.joining import Joined
from groups.partition import partition_of
from groups.sessions import Looked, SettledShare
from groups.share import SessionShare
from topics.read.diff import Window
from watch.feeds import Batch, Reading
from watch.hub import Hub
from watch.position import RETRY_SECONDS
from watch.reading import ReadView
from watch.sessions import MAX_BATCH_BYTES
from wire.access.keys import Key

LEAST, MOST = 256, 1000  # records of a read: `max_in_flight` within these limits


class Membership(ABC):
    """A session and its frames, in the hub's event loop.

    The hub, the feeds, the roster and timers call the methods. The methods never wait, except `begin` and `explain_end`. They
    change the state and wake the transport, which then takes `next_frames`.

    `lease_until`: until this moment of the monotonic clock the session cannot time out. Afterwards the transport gets no record,
    because the shares may have another owner by then.
    """

    def __init__(self, hub: Hub, joined: Joined, key: Key) -> None:
        self.hub, self.joined, self.key = hub, joined, key
        self.topic_id, self.topic = joined.topic_id, joined.topic
        self.partition = partition_of(joined.partition_by, joined.partitions)
        limit = min(max(joined.max_in_flight, LEAST), MOST)
        self.view = ReadView(
            limit, min(EVENT_BYTES, MAX_BATCH_BYTES), None, None, True, True, True, False, key.prefixes
        )
        self.since = time.monotonic()
        self.shares: dict[int, SessionShare] = {}
        self.lease_until = 0.0
        self.reads = 0
        self.reading: Reading | None = None
        self.reading_seq = 0
        self.resting_until = 0.0  # after a failed read
        self.outbox: deque[bytes] = deque()  # frames that the transport has not taken
        self.is_ending = False

    async def begin(self) -> None:
        """Follows the topic. The transport sends `joined` itself, before all other frames."""
        self.hub.follow(self.topic_id, self)
        head_seq = await self.hub.head(self.topic_id)
        if head_seq is None:
            self.vanished()
        else:
            self.hub.heads[self.topic_id] = max(head_seq, self.hub.heads.get(self.topic_id, 0))

    # -- The transport ------------------------------------------------------------------------------------------------

    @abstractmethod
    def wake(self) -> None:
        """Makes the transport call `next_frames`, later."""

    @abstractmethod
    def event(self, name: str, **data: Any) -> bytes:
        """Returns a frame of this topic."""

    @abstractmethod
    def record(self, share: SessionShare, records: list[bytes], from_seq: int, to_seq: int, head_seq: int) -> bytes:
        """Returns a frame with records of a share."""

    @abstractmethod
    def refusal(self, code: str | int, message: str) -> bytes:
        """Returns the frame that ends the session."""

    @property
    def is_over(self) -> bool:
        """Whether the session has ended and the transport has taken all frames."""
        return self.is_ending and not self.outbox

    # -- Called by the hub, the feeds, the registry and timers --------------------------------------------------------

    def heard(self, head_seq: int) -> None:
        self.wake()

    def vanished(self) -> None:
        """The topic was deleted, and the group with it."""
        if not self.is_ending:
            self.announce("topic-deleted", reason="deleted")
            self.hang_up(keep_frames=True)

    def reading_done(self) -> None:
        self.wake()

    def end(self, code: str | int, message: str) -> None:
        """Queues an `error` as the last frame."""
        if not self.is_ending:
            self.outbox.append(self.refusal(code, message))
            self.hang_up(keep_frames=True)

    def hang_up(self, keep_frames: bool = False) -> None:
        """Ends the frames, at once or after the queued frames."""
        self.is_ending = True
        if not keep_frames:
            self.outbox.clear()
        self.wake()

    def announce(self, name: str, **data: Any) -> None:
        self.outbox.append(self.event(name, **data))
        self.wake()

    # -- Called by the roster -----------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        return sum(share.in_flight for share in self.shares.values())

    @property
    def is_full(self) -> bool:
        """Whether the stream pauses until a commit."""
        return self.in_flight >= self.joined.max_in_flight

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
                share = self.shares[owned.share] = SessionShare(owned.share, owned.generation, owned.seq)
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

    def tell(self, name: str, shares: list[SessionShare]) -> None:
        if shares:
            told = [{"share": each.number, "generation": each.generation, "seq": each.committed_seq} for each in shares]
            self.announce(name, group=self.joined.group, shares=told)

    def committed(self, share: int, generation: int, seq: int) -> None:
        """Notes a commit that this process has answered."""
        held = self.shares.get(share)
        if held is not None and held.generation == generation:
            held.committed(seq)
            self.wake()

    def drained(self) -> Iterator[SettledShare]:
        """Yields the shares that this stream has stopped since the last call of the roster, with the last seq that it sent."""
        for share in self.shares.values():
            if share.is_revoked and share.drained_turn != share.turn:
                yield self.settled(share, share.turn, share.sent_seq)

    def advanced(self) -> Iterator[SettledShare]:
        """Yields the shares whose cursors are behind only because the records above belong to other shares."""
        for share in self.shares.values():
            if not share.is_revoked and not share.waiting and share.position > share.committed_seq:
                yield self.settled(share, None, None)

    def settled(self, share: SessionShare, turn: int | None, drain_seq: int | None) -> SettledShare:
        seq = None if share.waiting else share.position
        return SettledShare(self.joined.group_id, share.number, share.generation, seq, turn, drain_seq)

    def noted(self, row: SettledShare) -> None:
        """PostgreSQL has this row of drained() or advanced()."""
        share = self.shares.get(row.share)
        if share is not None and share.generation == row.generation:
            if row.turn is not None:
                share.drained_turn = row.turn
            if row.seq is not None:
                share.committed(row.seq)

    # -- Frames -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self.is_ending = True
        self.hub.leave(self.topic_id, self)

    def next_frames(self) -> list[bytes]:
        """Returns the next frames to send. The list is empty if there are none yet."""
        while not self.outbox and not self.is_ending:
            if self.reading is None and not self.ask():
                return []
            reading = self.reading
            if reading is None or not reading.done:
                return []
            self.reading = None
            self.take(reading)
        taken = list(self.outbox)
        self.outbox.clear()
        return taken

    def ask(self) -> bool:
        """Asks for the next reading. Returns False if the stream may not read now, or has nothing to read."""
        now = time.monotonic()
        if now >= self.lease_until or now < self.resting_until or self.is_full:
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

    def take(self, reading: Reading) -> None:
        """Advances the shares by a reading, and queues the frames."""
        if reading.error is not None:
            self.resting_until = time.monotonic() + RETRY_SECONDS
            self.hub.loop.call_later(RETRY_SECONDS, self.wake)
            return
        if reading.batch is None:
            self.vanished()
            return
        if time.monotonic() >= self.lease_until:
            return
        self.reads += 1
        window = reading.batch.window.for_a_start_at(self.reading_seq)
        within = [
            share
            for share in self.shares.values()
            if not share.is_revoked and self.reading_seq <= share.position < window.next_from_seq
        ]
        self.outbox.extend(frame for share in within for frame in self.advance(share, window, reading.batch))

    def advance(self, share: SessionShare, window: Window, batch: Batch) -> Iterator[bytes]:
        """Advances a share to the end of a window. Yields the frames."""
        share.read_at = self.reads
        if window.lost is not None and share.position < window.gap_to:
            yield self.event(
                "tombstone",
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
            yield self.record(share, texts, share.position, window.next_from_seq, window.head_seq)
            share.sent(records[-1].seq, len(records))
        share.position = window.next_from_seq
