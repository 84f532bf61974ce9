"""One watch stream: takes the readings of the feeds, topic by topic (reads.py), and sends records at the client's pace.

The stream has a position in each topic (position.py) and holds at most one message. While a send waits for a slow client, the
stream reads nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from contract.sse import identified
from watch import frames
from watch.arrived import Arrived
from watch.batch import Batch
from watch.hub import Hub
from watch.position import GONE, LIVE, RESUMING, Position, id_line, reached
from watch.pump import Pump, Send
from watch.reads import TopicReads
from watch.resume import FoundTopic, resume
from watch.sessions import Saved, SavedPositions, Session, packed
from wire.access.keys import Key


class Stream(Pump):
    """A session's stream, in the hub's event loop.

    - During a send, the stream asks for no reading. It queues topics with news, and asks after the send.
    - During `begin`, the positions are RESUMING, and the stream reads nothing for them.
    """

    def __init__(self, hub: Hub, session: Session, key: Key, send: Send, last: Mapping[str, int] | None = None) -> None:
        """`last`: the parsed Last-Event-ID. The key decides which prefixes the client sees."""
        super().__init__(hub.loop, send, session.options.heartbeat_ms / 1000)
        self.hub, self.session, self.last = hub, session, last
        now, options = time.monotonic(), session.options
        self.positions = {
            name: Position(hub, name, saved, options.view(name, key.prefixes), now, self.news)
            for name, saved in session.positions.items()
        }
        self.has_one_topic = len(self.positions) == 1
        self.own_nodes = frozenset(options.nodes or ())
        self.reads = TopicReads(hub, self)
        self.has_moved_unsaid = False  # a position advanced, and no frame since then had an id
        self.progress = self.saved_progress = 0  # number of advances, now and at the last save
        self.arrived = Arrived(session.positions)

    async def begin(self) -> None:
        """Finds the position to continue at in each topic, and follows the topic from there."""
        positions, last = self.positions.values(), self.last
        for position in positions:
            position.follow()  # before the look-up, so that no later advance is missed
        found = await self.hub.find(list(self.positions))
        # A session's id names all topics of the session, except the topics whose deletion the client has received.
        is_ours = last is not None and last.keys() <= self.positions.keys()
        for name, position in self.positions.items():
            shown = last.get(name) if last else None
            topic = FoundTopic(*found[name]) if name in found else None
            knows_gone = is_ours and shown is None
            position.resume(resume(position.reached, self.session.exact, shown, topic, knows_gone), topic)
        self.arrived = Arrived(self.reached())
        for position in positions:
            if position.state is LIVE:
                self.say(frames.event("caught-up", topic=position.name, head_seq=position.seq))
            elif position.state is not GONE:
                self.reads.add(position)
            elif not position.reached.gone:
                self.news(position)
        self.ask()  # only now, so that the first reading is of the most urgent topic

    # -- Called by the hub, the feeds, the registry and timers --------------------------------------------------------

    def news(self, position: Position) -> None:
        """A topic may have something to read, or was deleted."""
        if position.state is GONE:
            self.reads.drop(position)
            self.queue(lambda: self.told_gone(position))
        elif not self.is_ending:
            self.reads.add(position)
            self.ask()

    def reading_done(self) -> None:
        self.wake()

    def told_gone(self, position: Position) -> bytes:
        self.progress += 1
        frame = position.tell_gone()
        return identified(frame, self.id_line())

    def say(self, frame: bytes) -> None:
        """Queues a frame. Its id has the positions of the moment of sending."""
        self.queue(lambda: identified(frame, self.id_line()))

    def heartbeat(self) -> bytes:
        """Returns a heartbeat, with an id that no frame has sent."""
        id = self.id_line() + b"\n" if self.has_moved_unsaid else b""
        self.has_moved_unsaid = False
        return super().heartbeat() + id

    def to_save(self, open: bool) -> Saved:
        """Returns the session's row. `open`: the stream continues, and the row may soon be behind."""
        arrived = self.arrived.positions(self.reached, self.is_sending, self.was_cut)
        positions = {name: position.saved(arrived[name]) for name, position in self.positions.items()}
        # After a crash, the row is behind until a stream has resumed. If the stream ends earlier, the row stays behind.
        has_resumed = all(position.state is not RESUMING for position in self.positions.values())
        is_behind = not has_resumed and not self.session.exact
        return Saved(self.session.wid, self.session.stream, packed(positions), open or is_behind)

    def reached(self) -> SavedPositions:
        return reached(self.positions.values())

    def id_line(self) -> bytes:
        return id_line(self.positions.values())

    # -- The stream itself --------------------------------------------------------------------------------------------

    def close(self) -> None:
        super().close()
        for position in self.positions.values():
            position.close()

    def sent(self, size: int) -> None:
        self.arrived.sent(size, self.reached)
        self.ask()

    def ask(self) -> None:
        """Asks for a reading of the next topic, unless a reading already runs or the client is slow."""
        if not self.is_sending and not self.is_ending and self.reads.ask():
            self.wake()

    def next_frame(self) -> bytes | None:
        while not self.frames and not self.is_ending and self.reads.is_done:
            self.arrived.before_send(self.reached)
            position, batch = self.reads.take()
            if batch is not None and (frame := self.advance(position, batch)) is not None:
                return frame
            self.ask()
        if self.frames:
            self.arrived.before_send(self.reached)
        return super().next_frame()

    def advance(self, position: Position, read: Batch) -> bytes | None:
        """Advances a position by a batch. Returns the bytes to send, or None."""
        self.progress += 1
        batch = read.without(self.own_nodes)
        if self.has_one_topic and position.is_said_by(batch):
            position.move(batch.window)
            self.has_moved_unsaid = False
            return batch.message
        seq = position.seq
        # `id_line` must run while the position is at the frame's end, so each id is made inside the loop.
        parts = [identified(frame, self.id_line()) for frame in position.advance(batch)]
        self.has_moved_unsaid = not parts and (self.has_moved_unsaid or position.seq != seq)
        return b"".join(parts) if parts else None
