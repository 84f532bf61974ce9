"""The stream of a worker: keeps up to `max` jobs in flight for its node, and sends the next when one is done (docs/queues.md)."""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import Annotated

import msgspec
from msgspec import Meta

from base.clock import now_ms
from base.errors import NotAQueue, TopicNotFound, TopicsError
from contract import sse
from contract.config import LeaseMs
from queues.claim import MOST_JOBS, claim
from queues.settle import Nack, holding, parsed, settle
from queues.waiting import freed
from store.script import Statement
from topics.config import MAX_PRIORITY
from topics.read.stamps import seen
from watch.api import StreamQuery
from watch.hub import Hub
from watch.pump import Pump, Send
from wire.access.keys import Key

log = logging.getLogger(__name__)
# How often a stream looks whether its jobs are done. It learns at once of an ack that its own process answers.
LOOK_SECONDS = 0.2
STILL_HELD = """
SELECT seq FROM queues_lease
 WHERE topic_id = %s AND seq = ANY (%s::bigint[]) AND id = ANY (%s::uuid[]) AND deadline > queue_now()
"""


class WorkQuery(StreamQuery):
    """The worker, and how many jobs it holds."""

    node: str = ""
    """Name of the worker that gets the jobs: 1 to 128 bytes."""
    max: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 1
    """Maximum number of jobs in flight on this stream. More than 1000 means 1000."""
    lease_ms: LeaseMs | None = None
    """Milliseconds after which a job comes back: 100 to 86400000. Absent: the `lease_ms` of the queue."""
    priority: Annotated[int, Meta(ge=0, le=MAX_PRIORITY)] = 0
    """0 to 1000. Among the streams of a queue in one web process, a higher priority gets jobs first."""


class Lease(msgspec.Struct):
    """The name of the lease of a claimed job."""

    lease_id: str


class WorkStream(Pump):
    """A worker's stream, in the hub's event loop. `held`: the jobs in flight on this stream, each with the id of its lease."""

    view = None

    def __init__(self, hub: Hub, topic: str, topic_id: int, wanted: WorkQuery, key: Key, send: Send) -> None:
        super().__init__(hub.loop, send)
        self.hub, self.topic, self.topic_id, self.key = hub, topic, topic_id, key
        self.node, self.most, self.lease_ms = wanted.node, min(wanted.max, MOST_JOBS), wanted.lease_ms
        self.priority = wanted.priority
        self.held: dict[int, str] = {}
        self.may_claim = True  # whether the queue may have a ready job
        self.is_asking = False  # whether the stream waits for PostgreSQL
        self.must_look = False
        self.looking = hub.loop.call_later(LOOK_SECONDS, self.look_soon)
        hub.follow(topic_id, self)
        insort(open_streams.setdefault(topic, []), self, key=rank)

    # -- Called by the hub, the registry, the timer and acks ----------------------------------------------------------

    def heard(self, head_seq: int) -> None:
        """Jobs may be ready: new ones, or, at the hub's look of each second, some whose lease ended."""
        self.may_claim = True
        self.wake()

    def vanished(self) -> None:
        self.fail(TopicNotFound(f"topic {self.topic!r} was deleted"))

    def fail(self, error: TopicsError) -> None:
        self.end(error.status, error.message)

    def settled(self, seqs: list[int]) -> None:
        """Notes that jobs were acked or given back, by any client."""
        self.may_claim = True
        self.must_look |= not self.held.keys().isdisjoint(seqs)
        self.wake()

    def look_soon(self) -> None:
        """Called by the timer: the leases of jobs may have ended, and other processes answer acks."""
        self.must_look |= bool(self.held)
        self.wake()
        self.looking = self.loop.call_later(LOOK_SECONDS, self.look_soon)

    # -- The stream itself --------------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Looks, claims, or waits until the stream is woken."""
        if self.must_look:
            self.must_look = False
            await self.attempt(self.look)
        elif self.may_claim and len(self.held) < self.most and not self.is_outranked():
            self.may_claim = False
            await self.attempt(self.claim)
        else:
            await super().rest()

    def is_outranked(self) -> bool:
        """Whether a stream of a higher priority may claim next. The higher stream wakes this stream afterwards."""
        higher = takewhile(lambda other: other.priority > self.priority, open_streams[self.topic])
        return any(other.is_next() for other in higher)

    def is_next(self) -> bool:
        """Whether the stream claims, or may find room and claim. A stream that still sends jobs to the client is not next."""
        if self.is_asking or self.is_sending or self.frames or self.is_ending:
            return self.is_asking
        return self.must_look or (self.may_claim and len(self.held) < self.most)

    def wake_lower(self) -> None:
        lower = takewhile(lambda other: other.priority < self.priority, reversed(open_streams[self.topic]))
        for other in lower:
            other.wake()

    async def attempt(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work. If PostgreSQL is unavailable or the topic is sealed, the hub's next look tries again."""
        self.is_asking = True
        try:
            await work()
        except (NotAQueue, TopicNotFound) as error:
            self.fail(error)
        except TopicsError as error:
            log.debug("A stream of jobs waits: %s", error.message)
        self.is_asking = False
        self.wake_lower()

    async def look(self) -> None:
        """Forgets the jobs that are done, and those whose lease ended."""
        arguments = (self.topic_id, list(self.held), list(self.held.values()))
        rows = await self.hub.store.execute(Statement(STILL_HELD, arguments, quick=True))
        still = {seq for (seq,) in rows}
        if len(still) < len(self.held):
            self.held = {seq: lease for seq, lease in self.held.items() if seq in still}
            self.may_claim = True

    async def claim(self) -> None:
        """Claims jobs up to `most` or to the limit of bytes, and queues an event for each.

        The stream sends these events before the next claim. So a stream holds one answer of a claim at a time.
        """
        wanted = self.most - len(self.held)
        asked = claim(self.topic, self.node, wanted, self.lease_ms, now_ms(), topic_id=self.topic_id)
        done = await self.hub.store.drive(asked)
        self.may_claim = len(done.jobs) == done.most_jobs
        for seq, job in zip(done.seqs, done.jobs, strict=True):
            self.held[seq] = str(parsed(msgspec.json.decode(job, type=Lease).lease_id))
            data = f'{{"topic":"{self.topic}",{seen(job, self.key.prefixes)[1:]}'
            self.say(sse.event("job", data.encode(), b"%d" % seq))

    def close(self) -> None:
        super().close()
        self.looking.cancel()
        self.hub.leave(self.topic_id, self)
        self.is_asking = False
        self.wake_lower()
        open_streams[self.topic].remove(self)
        if not open_streams[self.topic]:
            del open_streams[self.topic]

    async def give_back(self) -> None:
        """Gives the jobs back, after the end."""
        if self.held:
            held = holding(self.node, list(self.held), list(self.held.values()))
            try:
                await self.hub.store.drive(settle(Nack, self.topic, held, (0, None), now_ms()))
                tell(self.topic, [])
                freed(self.topic)
            except TopicsError as error:
                log.warning(
                    "Could not release %d jobs of queue %s: %s. They come back when their leases end",
                    len(self.held), self.topic, error.message,
                )  # fmt: skip


open_streams: dict[str, list[WorkStream]] = {}  # of this process, by topic. The highest priority is first


def rank(stream: WorkStream) -> int:
    return -stream.priority


def tell(topic: str, seqs: list[int]) -> None:
    """Tells the streams of this process that jobs were acked or given back. Called in any thread."""
    for stream in list(open_streams.get(topic, ())):
        stream.hub.loop.call_soon_threadsafe(stream.settled, seqs)
