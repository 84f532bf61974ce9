"""One topic of a watch stream: what state it is in, how far it was sent, and what is told when that changes.

Events come from the hub (a head moved, the topic was deleted, its name is there again) and from the stream (it goes
on, it has read). All of them are called in the hub's event loop and wait for nothing, so no two of them overlap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum, auto
from typing import Protocol

from topics.diff import Window
from watch import frames
from watch.feeds import Batch, View
from watch.hub import Hub
from watch.resume import FoundTopic
from watch.sessions import SavedPosition, SavedPositions

# For these losses, if the first read of a topic finds them, the reader itself came too late: `from_seq_too_old`.
LATE = ("cap", "ttl", "mixed", "restart")


class State(Enum):
    RESUMING = auto()  # the session's position is known, and not yet where the stream goes on
    FIRST_READ = auto()  # behind the head, and nothing was read since the stream began
    CATCHING_UP = auto()  # behind the head
    LIVE = auto()  # it has come up with the head, and the client was told
    GONE = auto()  # deleted; it waits for another topic of its name


UNREADABLE = (State.RESUMING, State.GONE)


class Owner(Protocol):
    """The stream, as its positions know it."""

    def read_soon(self, position: Position) -> None:
        """There may be something to read in this topic."""

    def topic_deleted(self, position: Position) -> None:
        """The position is GONE from now on."""


class Position:
    """A topic's place in a stream. `reached` says how far it was sent, and is replaced as a whole when that moves.

    So it moves with what is sent and not before: in GONE until topic-deleted is sent it says that the topic is there.
    `topic_id` is the topic that is read. A topic that is created again continues the numbers of the one before, so a
    stream reads on from its seq, and topic_diff says whether that is a seq of the one before.

    | state                   | event                                   | next        | what is sent            |
    |-------------------------|-----------------------------------------|-------------|-------------------------|
    | RESUMING                | there is no topic of this name          | GONE        | topic-deleted, unless   |
    |                         |                                         |             | the client knows        |
    | RESUMING                | the client is at the head               | LIVE        | caught-up               |
    | RESUMING                | the client is behind the head           | FIRST_READ  |                         |
    | FIRST_READ, CATCHING_UP | a read that ends before the head        | CATCHING_UP | tombstone¹, record      |
    | FIRST_READ, CATCHING_UP | a read up to the head                   | LIVE        | tombstone¹, record,     |
    |                         |                                         |             | caught-up               |
    | LIVE                    | a read that ends before the head        | CATCHING_UP | tombstone¹, record      |
    | LIVE                    | a read up to the head                   | LIVE        | tombstone¹, record      |
    | all but RESUMING, GONE  | the topic was deleted                   | GONE        | topic-deleted           |
    | GONE                    | a topic of the name was created         | CATCHING_UP |                         |

    ¹ if records were lost; in state FIRST_READ with `from_seq_too_old` for the reasons LATE. A stream sends one tombstone
    `recreated` for a topic, also if it sent that before the first record and the read of that record says it again.

    Whatever else happens in a state is passed over: a hint in RESUMING, because the look-up that is under way began
    after we followed the topic and sees what the hint is about, and a hint in GONE, because it came late.

    `announced_head_seq`: the head that the last frame told, which the next one must not go behind. `read_since`: only a
    read that began after this moment (of the monotonic clock) will do.
    """

    __slots__ = (
        "announced_head_seq",
        "hub",
        "name",
        "reached",
        "read_since",
        "state",
        "stream",
        "topic_id",
        "view",
    )

    def __init__(self, hub: Hub, stream: Owner, name: str, saved: SavedPosition, view: View, read_since: float) -> None:
        self.hub, self.stream, self.name, self.view = hub, stream, name, view
        self.reached, self.topic_id, self.state = saved, saved.topic_id, State.RESUMING
        self.announced_head_seq, self.read_since = 0, read_since

    @property
    def seq(self) -> int:
        """How far the topic was sent."""
        return self.reached.seq

    @property
    def is_readable(self) -> bool:
        return self.state not in UNREADABLE

    # -- Resuming, and the end ----------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Hear of the topic from now on."""
        self.hub.follow(self.topic_id, self)

    def resume(self, reached: SavedPosition, found: FoundTopic | None) -> None:
        """Leave RESUMING. What is to be sent for that is the stream's to send, when all its topics have resumed."""
        if found is None or found.topic_id != self.topic_id:
            self.hub.leave(self.topic_id, self)
        self.reached = reached
        if found is None:
            self.state = State.GONE
            self.hub.seekers[self] = None
            return
        self.topic_id = found.topic_id
        self.follow()
        # The hub may have heard of a newer head while we looked: then we are behind, and its hint was passed over.
        head_seq = self.hub.heads[found.topic_id] = max(found.head_seq, self.hub.heads.get(found.topic_id, 0))
        if self.seq == head_seq:
            self.state, self.announced_head_seq = State.LIVE, head_seq
        else:
            self.state = State.FIRST_READ

    def close(self) -> None:
        self.hub.leave(self.topic_id, self)
        self.hub.seekers.pop(self, None)

    # -- What the hub calls -------------------------------------------------------------------------------------------

    def heard(self, head_seq: int) -> None:
        if head_seq != self.seq:
            self.stream.read_soon(self)

    def vanished(self) -> None:
        """The topic was deleted: the hub has looked, or a read has found no topic of this id."""
        if not self.is_readable:
            return
        self.hub.leave(self.topic_id, self)
        self.hub.seekers[self] = None
        self.state = State.GONE
        self.stream.topic_deleted(self)

    def appeared(self, topic_id: int) -> None:
        """Another topic of this name was created."""
        self.hub.seekers.pop(self, None)
        self.topic_id, self.announced_head_seq = topic_id, 0
        self.state = State.CATCHING_UP
        self.follow()
        self.stream.read_soon(self)

    # -- Moving on by what was read -----------------------------------------------------------------------------------

    def is_outdated(self, window: Window) -> bool:
        """Whether another stream had this read before the head was what we have told.

        Reads are shared for up to a second. A head that goes back would look like a loss to the client.
        """
        return window.head_seq < self.announced_head_seq

    def is_said_by(self, batch: Batch) -> bool:
        """Whether the batch's message, which many streams share, tells all of it to a stream of this topic alone."""
        is_news = self.state is not State.LIVE and batch.window.caught_up
        return bool(batch.record) and batch.window.lost is None and not is_news

    def move(self, window: Window) -> None:
        """Be where the window ends."""
        is_told = self.reached.told and window.next_from_seq == self.seq
        self.reached = SavedPosition(self.topic_id, window.next_from_seq, is_told)
        self.state = State.LIVE if window.caught_up else State.CATCHING_UP
        self.announced_head_seq = window.head_seq

    def advance(self, batch: Batch) -> Iterator[bytes]:
        """Move on by a batch. Yields each frame, without its id, when the position is the one its id must tell."""
        window, was_live = batch.window, self.state is State.LIVE
        if self.reached.told and self.reached.topic_id == self.topic_id:
            window = window.for_a_start_at(self.seq)
        if (lost := self.tombstone(window)) is not None:
            self.reached = SavedPosition(self.topic_id, window.gap_to, window.lost == "recreated")
            yield lost
        has_moved = self.seq != window.next_from_seq
        self.move(window)
        if batch.record:
            yield batch.record
        elif has_moved and not window.caught_up:
            yield b"\n"  # nothing to show of it: the id alone moves the client
        if window.caught_up and not was_live:
            yield frames.event("caught-up", topic=self.name, head_seq=window.head_seq)

    def tombstone(self, window: Window) -> bytes | None:
        """The tombstone before this window, if records were lost there that nobody asked to delete."""
        reason = window.lost
        if reason is None:
            return None
        cause = {}
        if self.state is State.FIRST_READ and reason in LATE:
            cause, reason = {"cause": reason}, "from_seq_too_old"
        return frames.event(
            "tombstone",
            topic=self.name,
            reason=reason,
            **window.gap(self.seq),
            earliest_seq=window.earliest_seq,
            head_seq=window.head_seq,
            **cause,
        )

    # -- What is told of it -------------------------------------------------------------------------------------------

    def tell_gone(self) -> bytes:
        """Have told that the topic was deleted, by this frame."""
        frame = frames.event("topic-deleted", topic=self.name, head_seq=self.reached.seq, reason="deleted")
        self.reached = SavedPosition(self.reached.topic_id, self.reached.seq, gone=True)
        return frame

    def saved(self, arrived: SavedPosition) -> SavedPosition:
        """What is written down of this position. `arrived` says how far the client has surely come."""
        if self.state is State.RESUMING:
            return self.reached  # nothing was sent: what the session had saved is still true
        is_same = arrived.topic_id == self.reached.topic_id
        # A deletion that may not have arrived is told once more: so it counts only when both say that it is gone.
        is_gone = is_same and arrived.gone and self.reached.gone
        return SavedPosition(self.reached.topic_id, self.reached.seq, self.reached.told, is_gone, arrived.seq)


def reached(positions: Iterable[Position]) -> SavedPositions:
    """How far each topic was sent. Costs little: what a position has reached is never changed in place."""
    return {position.name: position.reached for position in positions}


def id_line(positions: Collection[Position]) -> bytes:
    """The `id:` line of a frame that is sent now: how far each topic was sent.

    Before the positions have resumed it is empty, so that the client keeps the id that it has. What the session had
    saved may be further than what the client got, or less far than what it has shown.
    """
    if any(position.state is State.RESUMING for position in positions):
        return b""
    return frames.id_line({position.name: position.seq for position in positions if not position.reached.gone})
