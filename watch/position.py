"""A topic of a watch stream: the state, the last sent seq, and the frames for each change.

Events come from the hub (a head advanced, the topic was deleted, a topic of the name was created) and from the stream (resumed, a
read is done). All handlers run in the hub's event loop and never wait, and therefore never overlap. A position knows no stream,
but calls it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum, auto
from operator import attrgetter
from typing import NamedTuple

from topics.read.diff import Window
from watch import frames
from watch.batch import Batch
from watch.hub import Hub
from watch.reading import Reading, ReadView
from watch.resume import FoundTopic
from watch.sessions import SavedPosition, SavedPositions

# If the first read of a topic finds such a loss, the reader came too late: the reason becomes `from_seq_too_old`.
LATE = ("cap", "ttl", "mixed", "restart")
RETRY_SECONDS = 0.5  # before a topic is read again after a failed read


class Form(NamedTuple):
    """The form of a stream's frames. `event(name, **data)` renders an event, and `record` a batch. `moved` is the frame of a
    position that advanced without a visible record."""

    event: Callable[..., bytes]
    record: Callable[[Batch], bytes]
    moved: bytes


EVENTS = Form(frames.event, attrgetter("record"), b"\n")  # server-sent events: the id alone advances the client


class PositionState(Enum):
    RESUMING = auto()  # the session's position is loaded, but the stream has not resumed
    FIRST_READ = auto()  # behind the head, and nothing was read since the stream started
    CATCHING_UP = auto()  # behind the head
    LIVE = auto()  # at the head, and the client got caught-up
    GONE = auto()  # deleted, waits for another topic of its name


RESUMING, FIRST_READ, CATCHING_UP, LIVE, GONE = PositionState  # a name of this module is found sooner


class Position:
    """The position of a stream in one topic. `reached` says how far the topic was sent. A change replaces `reached` as a whole.

    `reached` changes when a frame is sent, not before. In GONE, `reached` still says that the topic exists until topic-deleted is
    sent. `topic_id` is the topic that is read. A recreated topic continues the numbers of its predecessor. A stream therefore
    continues to read from its seq, and topic_diff knows whether the seq belongs to the predecessor.

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

    ¹ if records were lost. In state FIRST_READ, the reason is `from_seq_too_old` for the reasons LATE. A stream sends only one
    tombstone `recreated` for a topic, even if the read of the first record reports the loss a second time.

    All other events in a state are ignored. In RESUMING, a hint is ignored because the look-up started after the follow() and
    sees the new head. In GONE, a hint is late.

    `announced_head_seq`: the head in the last frame. The head in the next frame must not be lower. `read_since`: a moment of the
    monotonic clock. Only reads that started later are used.
    """

    __slots__ = (
        "announced_head_seq",
        "form",
        "hub",
        "is_behind",
        "name",
        "on_news",
        "reached",
        "read_since",
        "state",
        "topic_id",
        "view",
    )

    def __init__(
        self,
        hub: Hub,
        name: str,
        saved: SavedPosition,
        view: ReadView,
        read_since: float,
        on_news: Callable[[Position], None],
        form: Form = EVENTS,
    ) -> None:
        """`on_news` is called when the topic may have something to read, or has become GONE."""
        self.hub, self.name, self.view, self.on_news, self.form = hub, name, view, on_news, form
        self.reached, self.topic_id, self.state = saved, saved.topic_id, RESUMING
        self.is_behind = False  # the last reading did not reach the head
        self.announced_head_seq, self.read_since = 0, read_since

    @property
    def seq(self) -> int:
        """Returns the seq up to which the topic was sent."""
        return self.reached.seq

    @property
    def is_readable(self) -> bool:
        return self.state is not RESUMING and self.state is not GONE

    # -- Resuming, and the end ----------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Starts to receive the hub's calls for the topic."""
        self.hub.follow(self.topic_id, self)

    def resume(self, reached: SavedPosition, found: FoundTopic | None) -> None:
        """Leaves RESUMING. The stream sends the frames when all topics have resumed."""
        if found is None or found.topic_id != self.topic_id:
            self.hub.leave(self.topic_id, self)
        self.reached = reached
        if found is None:
            self.state = GONE
            self.hub.seekers[self] = None
            return
        self.topic_id = found.topic_id
        self.follow()
        # The hub may have heard of a newer head while we looked. Then we are behind, because we ignored its hint.
        head_seq = self.hub.heads[found.topic_id] = max(found.head_seq, self.hub.heads.get(found.topic_id, 0))
        if self.seq == head_seq:
            self.state, self.announced_head_seq = LIVE, head_seq
        else:
            self.state = FIRST_READ

    def close(self) -> None:
        self.hub.leave(self.topic_id, self)
        self.hub.seekers.pop(self, None)

    # -- Called by the hub --------------------------------------------------------------------------------------------

    def heard(self, head_seq: int) -> None:
        if head_seq != self.seq:
            self.read_soon()

    def read_soon(self) -> None:
        if self.is_readable:
            self.on_news(self)

    def vanished(self) -> None:
        """The topic was deleted: the hub has looked, or a read has found no topic of this id."""
        if not self.is_readable:
            return
        self.hub.leave(self.topic_id, self)
        self.hub.seekers[self] = None
        self.state = GONE
        self.on_news(self)

    def appeared(self, topic_id: int) -> None:
        """A topic of this name was created again."""
        self.hub.seekers.pop(self, None)
        self.topic_id, self.announced_head_seq = topic_id, 0
        self.state = CATCHING_UP
        self.follow()
        self.on_news(self)

    # -- Advancing by a read ------------------------------------------------------------------------------------------

    def taken(self, reading: Reading) -> Batch | None:
        """Returns the batch to advance by, or None if the position cannot advance by this reading."""
        self.is_behind = False
        if not self.is_readable:
            return None
        if reading.error is not None:
            self.hub.loop.call_later(RETRY_SECONDS, self.read_soon)
            return None
        if reading.batch is None:
            self.vanished()
            return None
        window = reading.batch.window
        if self.is_outdated(window):
            # The next read is accepted with any head, so a read is repeated only once.
            self.announced_head_seq, self.read_since = 0, time.monotonic()
            self.is_behind = True
            return None
        # The hub notes a head before the call of heard(). The hub's head therefore covers all heads passed to heard() during the
        # read.
        self.is_behind = window.next_from_seq < max(window.head_seq, self.hub.heads.get(self.topic_id, 0))
        return reading.batch

    def is_outdated(self, window: Window) -> bool:
        """Returns True if the read is older than the announced head.

        Reads are shared for up to a second, and another stream may have started the read. A lower head would look like a loss to
        the client.
        """
        return window.head_seq < self.announced_head_seq

    def is_said_by(self, batch: Batch) -> bool:
        """Returns True if the batch's shared message contains everything for a stream with a single topic."""
        is_news = self.state is not LIVE and batch.window.caught_up
        return batch.window.lost is None and not is_news and not batch.is_empty

    def move(self, window: Window) -> None:
        """Sets the position to the end of the window."""
        is_told = self.reached.told and window.next_from_seq == self.seq
        self.reached = SavedPosition(self.topic_id, window.next_from_seq, is_told)
        self.state = LIVE if window.caught_up else CATCHING_UP
        self.announced_head_seq = window.head_seq

    def advance(self, batch: Batch) -> Iterator[bytes]:
        """Advances by a batch. Yields each frame without an id. At each yield, `id_line` returns the frame's id."""
        window, was_live = batch.window, self.state is LIVE
        if self.reached.told and self.reached.topic_id == self.topic_id:
            window = window.for_a_start_at(self.seq)
        if (lost := self.tombstone(window)) is not None:
            self.reached = SavedPosition(self.topic_id, window.gap_to, window.lost == "recreated")
            yield lost
        has_moved = self.seq != window.next_from_seq
        self.move(window)
        if not batch.is_empty:
            yield self.form.record(batch)
        elif has_moved and not window.caught_up:
            yield self.form.moved
        if window.caught_up and not was_live:
            yield self.form.event("caught-up", topic=self.name, head_seq=window.head_seq)

    def tombstone(self, window: Window) -> bytes | None:
        """Returns the tombstone before the window if records were lost, except by a client's delete. Otherwise returns None."""
        reason = window.lost
        if reason is None:
            return None
        cause = {}
        if self.state is FIRST_READ and reason in LATE:
            cause, reason = {"cause": reason}, "from_seq_too_old"
        return self.form.event(
            "tombstone",
            topic=self.name,
            reason=reason,
            **window.gap(self.seq),
            earliest_seq=window.earliest_seq,
            head_seq=window.head_seq,
            **cause,
        )

    # -- Frames and rows ----------------------------------------------------------------------------------------------

    def tell_gone(self) -> bytes:
        """Marks the topic as deleted. Returns the frame `topic-deleted`."""
        frame = self.form.event("topic-deleted", topic=self.name, head_seq=self.reached.seq, reason="deleted")
        self.reached = SavedPosition(self.reached.topic_id, self.reached.seq, gone=True)
        return frame

    def saved(self, arrived: SavedPosition) -> SavedPosition:
        """Returns the position as it is saved. `arrived`: how far the client has surely come."""
        if self.state is RESUMING:
            return self.reached  # nothing was sent, so the saved position is still right
        is_same = arrived.topic_id == self.reached.topic_id
        # A deletion is sent again unless the client surely got the event. Both positions must therefore be gone.
        is_gone = is_same and arrived.gone and self.reached.gone
        return SavedPosition(self.reached.topic_id, self.reached.seq, self.reached.told, is_gone, arrived.seq)


def reached(positions: Iterable[Position]) -> SavedPositions:
    """Returns how far each topic was sent. The result is cheap, because a position replaces `reached` and never changes
    `reached` in place."""
    return {position.name: position.reached for position in positions}


def id_line(positions: Collection[Position]) -> bytes:
    """Returns the `id:` line of a frame that is sent now: how far each topic was sent.

    Until all positions have resumed, the line is empty and the client keeps the old id. The saved positions may be ahead of the
    client, or behind the client.
    """
    if any(position.state is RESUMING for position in positions):
        return b""
    return frames.id_line({position.name: position.seq for position in positions if not position.reached.gone})
