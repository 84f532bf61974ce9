"""One watch stream: takes what the feeds have read, topic by topic in turn, and sends it at its reader's pace.

It holds a position in each topic and at most one frame. While a send waits for a slow reader nothing is read for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from base.clock import now_ms
from watch import frames
from watch.feeds import Batch, Reading, View
from watch.frames import LastId
from watch.hub import Hub
from watch.resume import Here, Resumed, Seen, resumed
from watch.sessions import Saved, Session, Spot, Spots, packed
from wire.keys import Key

RETRY_SECONDS = 0.5  # before a topic is read again that could not be read
SETTLE_SECONDS = 0.5  # what was sent so long before a connection ended has surely arrived
# Unless we ended it because its reader took nothing: then as much may wait unread, here, in the kernel and at the reader.
UNREAD_BYTES = 8 * 1024 * 1024
MARK_BYTES = 1024 * 1024  # sent between two places that are remembered for that
# A loss that the reader finds when it connects is its own being late.
LATE = ("cap", "ttl", "mixed", "restart")

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Place:
    """One topic of one stream. `live`: it has come up with the head. `fresh`: it has not been read yet.

    `before`: the seq that the stream had reached in the topic's predecessor, until that is told. `told`: that the
    topic is gone has been. `told_head_seq`: the head that the last frame told. `since`: no read that began before
    this moment will do.
    """

    __slots__ = ("before", "fresh", "live", "name", "since", "spot", "stream", "told", "told_head_seq", "view")

    def __init__(self, stream: Stream, name: str, spot: Spot, view: View) -> None:
        self.stream, self.name, self.spot, self.view = stream, name, spot, view
        self.live, self.fresh, self.told = False, True, False
        self.before: int | None = None
        self.told_head_seq, self.since = 0, stream.since

    def move(self, seq: int) -> None:
        self.spot = Spot(self.spot.topic_id, seq, self.spot.anew)

    def heard(self, head_seq: int) -> None:
        if head_seq != self.spot.seq:
            self.stream.touch(self)

    def vanished(self) -> None:
        self.stream.lose(self)

    def appeared(self, topic_id: int) -> None:
        self.stream.arrive(self, topic_id)


class Stream:
    """A session's stream. Lives in the event loop; `pump` is its own coroutine, the rest is called by others."""

    def __init__(self, hub: Hub, session: Session, key: Key, send: Send) -> None:
        self.hub, self.session, self.key, self.send = hub, session, key, send
        self.since = time.monotonic()
        self.places = {
            name: Place(self, name, spot, session.options.view(name, key.prefixes))
            for name, spot in session.spots.items()
        }
        self.alone = len(self.places) == 1
        self.dirty: dict[Place, None] = {}  # in the order of asking: each topic has its turn
        self.place: Place | None = None  # whose reading is under way
        self.reading: Reading | None = None
        self.notes: deque[bytes] = deque()  # frames that need no reading
        self.sleeper: asyncio.Future[None] | None = None
        self.sending = False
        self.begun = self.ending = False  # nothing is read before we know from where
        self.sent_at = time.monotonic()
        self.unsaid = False  # the position moved and no frame has said so
        self.progress = self.saved = 0  # frames sent, and as of the last save
        self.newer = self.older = (self.since, session.spots)  # what had been sent when
        self.sent_bytes = 0
        self.marks = deque([(0, session.spots)])  # what had been sent after so many bytes
        self.unread = False  # it was ended because its reader took nothing
        self.timer = hub.loop.call_later(self.heartbeat_seconds, self.beat)

    @property
    def heartbeat_seconds(self) -> float:
        return self.session.options.heartbeat_ms / 1000

    async def begin(self, last: LastId | None) -> None:
        """Find the place in each topic, and follow it from there."""
        for place in self.places.values():
            self.hub.follow(place.spot.topic_id, place)  # before we look: what moves from here on is heard
        found = await self.hub.find(list(self.places))
        ours = last is not None and last.seqs.keys() <= self.places.keys()
        for name, place in self.places.items():
            seen = Seen(last.seqs[name], last.epochs.get(name)) if last and name in last.seqs else None
            here = Here(*found[name]) if name in found else None
            told = ours and seen is None
            self.resume(place, resumed(place.spot, self.session.exact, seen, here, told), here)
        self.newer = self.older = (self.since, self.spots())
        self.marks = deque([(0, self.spots())])
        self.begun = True
        for place in self.places.values():  # only now: every id tells all places
            self.open(place)

    def resume(self, place: Place, there: Resumed, here: Here | None) -> None:
        if here is None or here.topic_id != place.spot.topic_id:
            self.hub.leave(place.spot.topic_id, place)
        place.spot, place.before, place.told = there.spot, there.before, not there.tell
        if here is None:
            self.hub.seekers[place] = None
            return
        self.hub.follow(here.topic_id, place)
        self.hub.heads[here.topic_id] = max(here.head_seq, self.hub.heads.get(here.topic_id, 0))

    def open(self, place: Place) -> None:
        if place.spot.gone:
            if not place.told:
                self.note(self.deleted(place))
        elif place.spot.seq == self.hub.heads[place.spot.topic_id] and place.before is None:
            place.live, place.fresh, place.told_head_seq = True, False, place.spot.seq
            self.note(frames.event("caught-up", topic=place.name, head_seq=place.spot.seq))
        else:
            self.touch(place)

    # -- What others call ---------------------------------------------------------------------------------------------

    def touch(self, place: Place) -> None:
        """There may be something to read in this topic."""
        if place.spot.gone or self.ending or not self.begun:
            return
        self.dirty[place] = None
        self.ask()

    def reading_done(self) -> None:
        """What was asked for is there."""
        self.wake()

    def lose(self, place: Place) -> None:
        """The topic was deleted."""
        if place.spot.gone or not self.begun:
            return
        self.hub.leave(place.spot.topic_id, place)
        self.hub.seekers[place] = None
        place.spot = Spot(place.spot.topic_id, place.spot.seq, place.spot.anew, gone=True)
        self.dirty.pop(place, None)
        if self.place is place:
            self.reading = None
        self.progress += 1
        self.note(self.deleted(place))

    def deleted(self, place: Place) -> bytes:
        return frames.event("topic-deleted", topic=place.name, head_seq=place.spot.seq, reason="deleted")

    def arrive(self, place: Place, topic_id: int) -> None:
        """Another topic of this name was created."""
        place.before, place.fresh, place.live = place.spot.seq, True, False
        place.told_head_seq = 0
        place.spot = Spot(topic_id, 0, anew=True)
        self.hub.seekers.pop(place, None)
        self.hub.follow(topic_id, place)
        self.touch(place)

    def end(self, code: str, message: str) -> None:
        """Say why, and end after what is already on its way."""
        if not self.ending:
            self.note(frames.event("error", code=code, error=message))
            self.ending = True

    def hang_up(self) -> None:
        """The client is gone."""
        self.ending = True
        self.notes.clear()
        self.wake()

    def note(self, frame: bytes) -> None:
        self.notes.append(self.id_line() + frame)
        self.wake()

    def beat(self) -> None:
        """A heartbeat, when nothing was sent for so long."""
        idle = time.monotonic() - self.sent_at
        left = self.heartbeat_seconds - idle
        if left <= 0.005 and not self.sending:
            self.notes.append(frames.heartbeat(now_ms()) + (self.id_line() + b"\n" if self.unsaid else b""))
            self.unsaid = False
            self.wake()
        self.timer = self.hub.loop.call_later(left if left > 0.005 else self.heartbeat_seconds, self.beat)

    def to_save(self, open: bool) -> Saved:
        settled = self.settled(time.monotonic())
        spots = {name: saved_spot(place.spot, settled[name]) for name, place in self.places.items()}
        return Saved(self.session.wid, self.session.stream, packed(spots), open)

    def remember(self) -> None:
        """Keep what has been sent so far, and when. Before each send, and cheap: most are too near the last."""
        if time.monotonic() - self.newer[0] >= SETTLE_SECONDS:
            self.older, self.newer = self.newer, (self.sent_at, self.spots())

    def mark(self) -> None:
        """Keep what has been sent so far, and let go of what has surely been read."""
        self.marks.append((self.sent_bytes, self.spots()))
        while self.marks[1][0] <= self.sent_bytes - UNREAD_BYTES:
            self.marks.popleft()

    def settled(self, now: float) -> Spots:
        """What has surely arrived."""
        if self.unread:
            return self.marks[0][1]
        before = now - SETTLE_SECONDS
        if self.sent_at <= before and not self.sending:
            return self.spots()
        return (self.newer if self.newer[0] <= before else self.older)[1]

    # -- The stream itself --------------------------------------------------------------------------------------------

    async def pump(self) -> None:
        """Send until the end. The caller has sent the response's start, and made everybody follow."""
        while True:
            self.remember()
            message = self.take()
            if message is not None:
                self.sending = True
                await self.send(message)
                self.sending = False
                self.sent_at = time.monotonic()
                self.sent_bytes += len(message["body"])
                if self.sent_bytes - self.marks[-1][0] >= MARK_BYTES:
                    self.mark()
                self.ask()
            elif self.ending:
                return
            else:
                self.sleeper = self.hub.loop.create_future()
                await self.sleeper

    def close(self) -> None:
        self.ending = True
        self.timer.cancel()
        for place in self.places.values():
            self.hub.leave(place.spot.topic_id, place)
            self.hub.seekers.pop(place, None)

    def wake(self) -> None:
        if self.sleeper is not None and not self.sleeper.done():
            self.sleeper.set_result(None)

    def ask(self) -> None:
        """Have the next topic read, unless a reading is under way or the reader is slow."""
        if self.reading is not None or self.sending or self.ending or not self.dirty:
            return
        place = next(iter(self.dirty))
        del self.dirty[place]
        spot = place.spot
        reading = self.hub.feeds.ask(place.name, spot.topic_id, spot.seq, place.view, place.since)
        self.place, self.reading = place, reading
        if reading.done:
            self.wake()
        else:
            reading.waiting.append(self)

    def take(self) -> dict[str, Any] | None:
        """The next message to send, if there is one."""
        while not self.notes:
            reading, place = self.reading, self.place
            if reading is None or place is None or not reading.done or self.ending:
                return None
            self.reading = None
            message = self.apply(place, reading)
            if message is not None:
                return message
            self.ask()
        return body(self.notes.popleft())

    def apply(self, place: Place, reading: Reading) -> dict[str, Any] | None:
        """Move on by what was read."""
        if place.spot.gone:
            return None
        if reading.error is not None:
            self.hub.loop.call_later(RETRY_SECONDS, self.touch, place)
            return None
        batch = reading.batch
        if batch is None:
            self.lose(place)
            return None
        window = batch.window
        if window.head_seq < place.told_head_seq:
            # Another stream had this read up to a second ago, before the read whose head we have told. A head that goes
            # back would look like a loss, so we ask for a read that begins now: whatever that one says is true.
            place.told_head_seq, place.since = 0, time.monotonic()
            self.dirty[place] = None
            return None
        place.told_head_seq = window.head_seq
        self.progress += 1
        if window.next_from_seq < max(window.head_seq, self.hub.heads.get(place.spot.topic_id, 0)):
            self.dirty[place] = None
        plain = window.lost is None and place.before is None and not place.spot.anew
        if self.alone and plain and batch.record and window.caught_up == place.live:
            place.move(window.next_from_seq)
            place.fresh = self.unsaid = False
            return batch.message
        return self.compose(place, batch)

    def compose(self, place: Place, batch: Batch) -> dict[str, Any] | None:
        """The frames of a batch for this stream."""
        window, caught_up = batch.window, batch.window.caught_up
        parts = []
        if (lost := self.loss(place, batch)) is not None:
            place.move(window.gap_to if window.lost is not None else 0)
            parts += [self.id_line(), lost]
        moved = place.spot.seq != window.next_from_seq
        place.move(window.next_from_seq)
        place.fresh, place.before = False, None
        if batch.record:
            parts += [self.id_line(), batch.record]
        elif moved and not caught_up:
            parts += [self.id_line(), b"\n"]  # nothing to show of it: the id alone moves the reader's place
        if caught_up and not place.live:
            parts += [self.id_line(), frames.event("caught-up", topic=place.name, head_seq=window.head_seq)]
        place.live = caught_up
        self.unsaid = (self.unsaid or moved) and not parts
        return body(b"".join(parts)) if parts else None

    def loss(self, place: Place, batch: Batch) -> bytes | None:
        """The tombstone before this batch, if records were lost there that nobody asked to delete."""
        window, reason, after = batch.window, batch.window.lost, place.spot.seq
        if place.before is not None:
            reason, after = "recreated", place.before
        elif reason is None:
            return None
        detail = {"cause": reason} if place.fresh and reason in LATE else {}
        return frames.event(
            "tombstone",
            topic=place.name,
            reason="from_seq_too_old" if detail else reason,
            gap_from=after + 1,
            gap_to=window.gap_to,
            earliest_seq=window.earliest_seq,
            head_seq=window.head_seq,
            **detail,
        )

    def spots(self) -> Spots:
        return {name: place.spot for name, place in self.places.items()}

    def id_line(self) -> bytes:
        spots = [(name, place.spot) for name, place in self.places.items() if not place.spot.gone]
        return frames.id_line(
            {name: spot.seq for name, spot in spots}, {name: spot.topic_id for name, spot in spots if spot.anew}
        )


def saved_spot(spot: Spot, settled: Spot) -> Spot:
    """What is written down of a place."""
    same = settled.topic_id == spot.topic_id
    return Spot(spot.topic_id, spot.seq, spot.anew, spot.gone and settled.gone, settled.seq if same else 0)


def body(frame: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": frame, "more_body": True}
