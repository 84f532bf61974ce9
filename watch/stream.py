"""One watch stream: takes the readings of the feeds, topic by topic (order.py), and sends records at the client's pace.

The stream has a position in each topic (position.py) and holds at most one message. While a send waits for a slow client, the
stream reads nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from base.clock import now_ms
from watch import frames
from watch.arrived import Arrived
from watch.hub import Hub
from watch.order import Order
from watch.position import Position, State, id_line, reached
from watch.reading import Reading
from watch.resume import FoundTopic, resume
from watch.sessions import Saved, SavedPositions, Session, packed
from wire.keys import Key

BEAT_SLACK_SECONDS = 0.005  # a heartbeat may be so much early, because timers are not exact

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Stream:
    """A session's stream, in the hub's event loop.

    A single coroutine awaits `begin` and then `pump`. Nothing else sends. The hub, the feeds, the registry and timers call all
    other methods while the coroutine waits: in a send, in the sleep, or in `begin`. The other methods never wait. They only queue
    work and wake the pump.

    - During a send, the stream asks for no reading. `read_soon` queues the topic, and the pump asks after the send.
    - During the sleep, `wake` ends the sleep. The pump checks everything again. A second wake does no harm.
    - During `begin`, the positions are RESUMING, and the stream reads nothing for them.
    """

    def __init__(self, hub: Hub, session: Session, key: Key, send: Send) -> None:
        self.hub, self.session, self.key, self.send = hub, session, key, send
        now, options = time.monotonic(), session.options
        self.positions = {
            name: Position(hub, self, name, saved, options.view(name, key.prefixes), now)
            for name, saved in session.positions.items()
        }
        self.has_one_topic = len(self.positions) == 1
        self.own_nodes = frozenset(options.nodes or ())
        self.to_read: Order[Position] = Order(lambda position: hub.priorities.get(position.topic_id, 0))
        self.reading: Reading | None = None  # the reading that runs, or is done and not taken
        self.reading_position: Position | None = None  # the position of `reading`
        self.frames: deque[Callable[[], bytes]] = deque()  # made when they are sent, before any reading
        self.is_sending = self.is_ending = False
        self.was_cut = False  # the stream was ended because its client took nothing
        self.has_moved_unsaid = False  # a position advanced, and no frame since then had an id
        self.progress = self.saved_progress = 0  # number of advances, now and at the last save
        self.arrived = Arrived(session.positions)
        self.sleep: asyncio.Future[None] | None = None
        self.heartbeat_seconds = options.heartbeat_ms / 1000
        self.timer = hub.loop.call_later(self.heartbeat_seconds, self.beat)

    async def begin(self, last: Mapping[str, int] | None) -> None:
        """Finds the position to continue at in each topic, and follows the topic from there. `last`: the parsed Last-Event-ID."""
        positions = self.positions.values()
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
            if position.state is State.LIVE:
                self.say(frames.event("caught-up", topic=position.name, head_seq=position.seq))
            elif position.state is not State.GONE:
                self.to_read.add(position)
            elif not position.reached.gone:
                self.topic_deleted(position)
        self.ask()  # only now, so that the first reading is of the most urgent topic

    # -- Called by the hub, the feeds, the registry and timers --------------------------------------------------------

    def read_soon(self, position: Position) -> None:
        """Queues a read of this topic."""
        if position.is_readable and not self.is_ending:
            self.to_read.add(position)
            self.ask()

    def reading_done(self) -> None:
        self.wake()

    def topic_deleted(self, position: Position) -> None:
        """Drops the queued read and the reading of a position in GONE. Queues the frame `topic-deleted`."""
        self.to_read.drop(position)
        if self.reading_position is position:
            self.reading = None
        self.frames.append(lambda: self.told_gone(position))
        self.wake()

    def told_gone(self, position: Position) -> bytes:
        self.progress += 1
        frame = position.tell_gone()
        return self.id_line() + frame

    def end(self, code: str, message: str) -> None:
        """Sends an `error` event and ends the stream after the frames that are already queued."""
        if not self.is_ending:
            self.say(frames.event("error", code=code, error=message))
            self.is_ending = True

    def hang_up(self) -> None:
        """The client has disconnected."""
        self.is_ending = True
        self.frames.clear()
        self.wake()

    def say(self, frame: bytes) -> None:
        """Sends a frame that needs no reading. The id has the positions of the moment of sending."""
        self.frames.append(lambda: self.id_line() + frame)
        self.wake()

    def beat(self) -> None:
        """Sends a heartbeat if nothing was sent for `heartbeat_seconds`. The heartbeat carries an id that no frame has sent."""
        left = self.heartbeat_seconds - (time.monotonic() - self.arrived.sent_at)
        if left > BEAT_SLACK_SECONDS:
            self.timer = self.hub.loop.call_later(left, self.beat)
            return
        if not self.is_sending:
            self.frames.append(self.heartbeat)
            self.wake()
        self.timer = self.hub.loop.call_later(self.heartbeat_seconds, self.beat)

    def heartbeat(self) -> bytes:
        id = self.id_line() + b"\n" if self.has_moved_unsaid else b""
        self.has_moved_unsaid = False
        return frames.heartbeat(now_ms()) + id

    def to_save(self, open: bool) -> Saved:
        """Returns the session's row. `open`: the stream continues, and the row may soon be behind."""
        arrived = self.arrived.positions(self.reached, self.is_sending, self.was_cut)
        positions = {name: position.saved(arrived[name]) for name, position in self.positions.items()}
        # After a crash, the row is behind until a stream has resumed. If the stream ends earlier, the row stays behind.
        has_resumed = all(position.state is not State.RESUMING for position in self.positions.values())
        is_behind = not has_resumed and not self.session.exact
        return Saved(self.session.wid, self.session.stream, packed(positions), open or is_behind)

    def reached(self) -> SavedPositions:
        return reached(self.positions.values())

    def id_line(self) -> bytes:
        return id_line(self.positions.values())

    # -- The stream itself --------------------------------------------------------------------------------------------

    async def pump(self) -> None:
        """Sends until the stream ends. The caller has sent the response's start and has awaited `begin`."""
        while True:
            message = self.next_message()
            if message is not None:
                self.is_sending = True
                await self.send(message)
                self.is_sending = False
                self.arrived.sent(len(message["body"]), self.reached)
                self.ask()
            elif self.is_ending:
                return
            else:
                self.sleep = self.hub.loop.create_future()
                await self.sleep

    def close(self) -> None:
        self.is_ending = True
        self.timer.cancel()
        for position in self.positions.values():
            position.close()

    def wake(self) -> None:
        if self.sleep is not None and not self.sleep.done():
            self.sleep.set_result(None)

    def ask(self) -> None:
        """Asks for a reading of the next topic, unless a reading already runs or the client is slow."""
        if self.reading is not None or self.is_sending or self.is_ending or not self.to_read:
            return
        position = self.to_read.take()
        reading = self.hub.feeds.ask(position.name, position.topic_id, position.seq, position.view, position.read_since)
        self.reading_position, self.reading = position, reading
        if reading.done:
            self.wake()
        else:
            reading.waiting.append(self)

    def next_message(self) -> dict[str, Any] | None:
        """Returns the next message to send, or None if there is none yet."""
        while not self.frames:
            reading, position = self.reading, self.reading_position
            if reading is None or position is None or not reading.done or self.is_ending:
                return None
            self.reading = None
            self.arrived.before_send(self.reached)
            message = self.take(position, reading)
            if message is not None:
                return message
            self.ask()
        self.arrived.before_send(self.reached)
        return body(self.frames.popleft()())

    def take(self, position: Position, reading: Reading) -> dict[str, Any] | None:
        """Advances a position by a reading. Returns the message to send, or None."""
        read = position.taken(reading)
        if read is None:
            return None
        self.progress += 1
        batch = read.without(self.own_nodes)
        if self.has_one_topic and position.is_said_by(batch):
            position.move(batch.window)
            self.has_moved_unsaid = False
            return batch.message
        seq = position.seq
        # `id_line` must run while the position is at the frame's end, so each id is made inside the loop.
        parts = [self.id_line() + frame for frame in position.advance(batch)]
        self.has_moved_unsaid = not parts and (self.has_moved_unsaid or position.seq != seq)
        return body(b"".join(parts)) if parts else None


def body(frame: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": frame, "more_body": True}
