"""The topics that a socket follows. Their positions and readings are those of watch streams, in frames of their own.

A socket holds no task for its subscriptions. They send after a reading has ended, and after the client has taken earlier frames.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import msgspec

from base.clock import now_ms
from base.errors import InvalidRequest
from sockets.frames import TEXT, RequestId, answer, event
from sockets.sender import Sender
from watch.api import Watched
from watch.hub import Hub
from watch.position import GONE, LIVE, Position
from watch.reads import TopicReads
from watch.resume import FoundTopic, resume
from watch.sessions import MOST_TOPICS, Watch, clamped_by, look_up
from wire.access.keys import Key
from wire.schema import Clamped


class Subscribed(msgspec.Struct, kw_only=True):
    """The body of the frame `subscribed`."""

    topics: dict[str, Watched]
    clamped: Clamped = msgspec.UNSET


class Followed(NamedTuple):
    """A position, and the nodes of the client. The client gets no record of these nodes."""

    position: Position
    own_nodes: frozenset[str]


class Subscriptions(Sender):
    """The subscriptions of a socket, in the hub's event loop. Only `subscribe` waits. At most one reading is under way."""

    def __init__(self, hub: Hub, key: Key, send: Callable[[bytes], None], may_send: Callable[[], bool]) -> None:
        super().__init__(hub, key, send, may_send)
        self.followed: dict[str, Followed] = {}
        self.reads = TopicReads(hub, self)

    # -- Commands -----------------------------------------------------------------------------------------------------

    async def subscribe(self, wanted: Watch, request_id: RequestId) -> None:
        """Follows topics. A topic that was followed before starts again. Raises TopicsError."""
        if len(self.followed.keys() | wanted.topics.keys()) > MOST_TOPICS:
            raise InvalidRequest(f"too many topics on one socket: expected at most {MOST_TOPICS}")
        options, topics, starts = await self.hub.store.drive(look_up(wanted, self.key, False, now_ms()))
        own_nodes, now = frozenset(options.nodes or ()), time.monotonic()
        new = []
        with ExitStack() as unless_found:
            for name, start in starts.items():
                view = options.view(name, self.key.prefixes)
                position = Position(self.hub, name, start, view, now, self.news, TEXT)
                position.follow()  # before the look-up, so that no later advance is missed
                unless_found.callback(position.close)
                new.append(position)
            found = await self.hub.find(list(starts))
            if self.is_closed:
                return
            unless_found.pop_all()
        for position in new:
            self.drop(position.name)  # only now, so that a refusal changes nothing
            self.followed[position.name] = Followed(position, own_nodes)
        shown = {each.name: Watched(starts[each.name].seq, each.head_seq, each.earliest_seq) for each in topics}
        body = Subscribed(topics=shown, clamped=clamped_by(wanted))
        self.send(answer("subscribed", request_id, msgspec.json.encode(body)))
        for position in new:
            self.begin(position, FoundTopic(*found[position.name]) if position.name in found else None)
        self.send_soon()

    def begin(self, position: Position, topic: FoundTopic | None) -> None:
        position.resume(resume(position.reached, True, None, topic, False), topic)
        if position.state is LIVE:
            self.send(event("caught_up", topic=position.name, head_seq=position.seq))
        elif position.state is GONE:
            self.news(position)
        else:
            self.reads.add(position)

    def drop(self, name: str) -> bool:
        """Follows a topic no longer. Returns whether the socket followed the topic."""
        followed = self.followed.pop(name, None)
        if followed is None:
            return False
        followed.position.close()
        self.reads.drop(followed.position)
        return True

    def positions(self) -> dict[str, int]:
        """Returns the seq up to which each topic was sent. Records without a frame count: deleted ones, and the client's own."""
        places = ((name, followed.position) for name, followed in self.followed.items())
        return {name: position.seq for name, position in places if position.state is not GONE}

    def close(self) -> None:
        self.is_closed = True
        for name in list(self.followed):
            self.drop(name)

    # -- Called by the hub, the feeds and the socket ------------------------------------------------------------------

    def news(self, position: Position) -> None:
        """A topic may have something to read, or was deleted."""
        if not self.follows(position):
            return
        if position.state is GONE:
            self.reads.drop(position)
            self.send(position.tell_gone())
        else:
            self.reads.add(position)
            self.send_soon()

    def reading_done(self) -> None:
        self.send_soon()

    # -- Sending ------------------------------------------------------------------------------------------------------

    def send_all(self) -> None:
        """Sends batches and asks for readings, until a reading is not done or the client is slow."""
        while self.may_send() and not self.is_closed and self.reads.ask():
            position, batch = self.reads.take()
            if batch is None:
                continue
            for frame in position.advance(batch.without(self.followed[position.name].own_nodes)):
                if frame:
                    self.send(frame)

    def follows(self, position: Position) -> bool:
        """Returns False for a position that was dropped."""
        followed = self.followed.get(position.name)
        return followed is not None and followed.position is position
