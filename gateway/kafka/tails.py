"""The newest messages of the topics that somebody follows: one consumer for all of them.

A topic has a ring of its last records, which every follower reads. A follower that falls behind the ring reads the topic itself
(readers.py). Once a second the tail looks whether the topics still exist, because Kafka does not tell a consumer.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from base.errors import TopicsError
from gateway.kafka.client import DENIED, KafkaClients, look_up, offset_of
from gateway.kafka.messages import Shown, shown
from gateway.kafka.topics import KafkaTopic, KafkaTopics

log = logging.getLogger(__name__)
MOST_HELD, MOST_HELD_BYTES = 1000, 256 * 1024  # of a topic
LOOK_SECONDS = 1.0
REST_SECONDS = 1.0  # after a failure
LOST = DENIED | {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # errors after which no record comes
POLL_SECONDS = 0.02  # a change of the assignment waits so long
OF_THE_TAIL = {
    "fetch.wait.max.ms": 50,  # a topic that is added waits for the request under way
    "fetch.error.backoff.ms": 50,
    "queued.max.messages.kbytes": 1024,  # of a topic
}


class TailRing:
    """The last records of a topic: those from the offset `first` to before `end`. `ended`: the topic was deleted, or this tail
    lost it or was closed."""

    def __init__(self, topic: KafkaTopic, offset: int) -> None:
        self.topic, self.first, self.end = topic, offset, offset
        self.held: deque[Shown] = deque()
        self.bytes = self.followers = 0
        self.ended = False
        self.waiting: set[asyncio.Event] = set()

    def take(self, record: Shown | None, end: int) -> None:
        self.end = max(self.end, end)
        if record is None:
            return
        self.held.append(record)
        self.bytes += record.size
        while len(self.held) > MOST_HELD or (self.bytes > MOST_HELD_BYTES and len(self.held) > 1):
            dropped = self.held.popleft()
            self.bytes -= dropped.size
            self.first = dropped.seq

    def after(self, seq: int) -> list[Shown]:
        """Returns the held records after a seq, which is not below `first`."""
        found: list[Shown] = []
        for record in reversed(self.held):
            if record.seq <= seq:
                break
            found.append(record)
        return found[::-1]

    def tell(self, news: asyncio.Event) -> None:
        """Sets `news` at each change, and now if the ring has ended."""
        self.waiting.add(news)
        if self.ended:
            news.set()

    def wake(self) -> None:
        for each in self.waiting:
            each.set()


class TailChange(NamedTuple):
    """A ring whose topic the consumer is to read, or not to read any more."""

    ring: TailRing
    is_added: bool


class Arrived(NamedTuple):
    """The next record for a ring, or None for a hole, and the offset behind.

    A topic can have another ring by the time when the record arrives, which begins elsewhere.
    """

    ring: TailRing
    record: Shown | None
    end: int


class KafkaTail:
    """Follows topics. All methods run in the event loop, except `run`."""

    def __init__(self, clients: KafkaClients, topics: KafkaTopics) -> None:
        self.clients, self.topics = clients, topics
        self.rings: dict[str, TailRing] = {}
        self.changes: queue.SimpleQueue[TailChange | None] = queue.SimpleQueue()
        self.looking: asyncio.Task[None] | None = None
        self.closed = False

    def follow(self, topic: KafkaTopic, offset: int) -> TailRing:
        """Returns the ring of a topic, which gets all records from `offset` on unless it has begun later. `leave` ends it."""
        ring = self.rings.get(topic.name)
        if ring is None or ring.topic.id != topic.id:
            if ring is not None:
                self.end(ring)
            ring = TailRing(topic, offset)
            self.add(ring)
        ring.followers += 1
        return ring

    def add(self, ring: TailRing) -> None:
        if self.closed:
            ring.ended = True
            return
        if self.looking is None:
            loop = asyncio.get_running_loop()
            threading.Thread(target=self.run, args=(loop,), name="kafka-tail", daemon=True).start()
            self.looking = loop.create_task(self.look())
        self.rings[ring.topic.name] = ring
        self.changes.put(TailChange(ring, is_added=True))

    def leave(self, ring: TailRing) -> None:
        ring.followers -= 1
        if not ring.followers:
            self.end(ring)

    def end(self, ring: TailRing) -> None:
        """Ends a ring. Its followers look for the topic again."""
        ring.ended = True
        ring.wake()
        if self.rings.get(ring.topic.name) is ring:
            del self.rings[ring.topic.name]
            self.changes.put(TailChange(ring, is_added=False))

    async def look(self) -> None:
        """Ends the rings of topics that were deleted, or replaced by others of their names."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for ring in list(self.rings.values()):
                try:
                    found = await self.topics.find(ring.topic.name)
                except TopicsError as error:
                    log.debug("The topic %s was not found: %s", ring.topic.name, error)
                    continue
                if found is None or found.id != ring.topic.id:
                    self.end(ring)

    # -- In its thread -------------------------------------------------------------------------------------------------

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads until the tail is closed. After a failure all rings end, because the consumer may have lost some of their
        records. Their followers look for the topics again, and get rings of a new consumer."""
        while not self.closed:
            try:
                with closing(self.clients.consumer(**OF_THE_TAIL)) as consumer:
                    self.read(consumer, loop)
            except Exception:
                if loop.is_closed():
                    return
                log.exception("The tail of Kafka topics failed. It begins again")
                loop.call_soon_threadsafe(self.end_all)
                time.sleep(REST_SECONDS)

    def read(self, consumer: Consumer, loop: asyncio.AbstractEventLoop) -> None:
        """Reads with one consumer. The assignment changes between two reads: in another thread, a change would wait for a read,
        and the read for the change. Raises KafkaException, and RuntimeError if the loop has ended."""
        assigned: dict[str, TailRing] = {}
        while not self.closed:
            self.change(consumer, assigned)
            message = consumer.poll(POLL_SECONDS) if assigned else None
            if message is not None:
                messages = [message, *consumer.consume(500, 0)]
                loop.call_soon_threadsafe(self.arrive, *arrived(messages, assigned))

    def change(self, consumer: Consumer, assigned: dict[str, TailRing]) -> None:
        """Makes the changes that wait. Without a topic, waits for one. `assigned`: the ring of each topic that is read."""
        while not self.closed and (not assigned or not self.changes.empty()):
            change = self.changes.get()
            if change is None:
                return
            name = change.ring.topic.name
            if name in assigned:
                consumer.incremental_unassign([TopicPartition(name, 0)])
                del assigned[name]
            if change.is_added:
                assigned[name] = change.ring
                consumer.incremental_assign([TopicPartition(name, 0, change.ring.first)])
                look_up(consumer, name)

    def arrive(self, found: Sequence[Arrived], failed: Sequence[TailRing]) -> None:
        changed = set()
        for ring, record, end in found:
            if not ring.ended and end > ring.end:
                ring.take(record, end)
                changed.add(ring)
        for ring in changed:
            ring.wake()
        for ring in failed:
            self.end(ring)

    def end_all(self) -> None:
        for ring in list(self.rings.values()):
            self.end(ring)

    def close(self) -> None:
        self.closed = True
        self.end_all()
        self.changes.put(None)
        if self.looking is not None:
            self.looking.cancel()


def arrived(messages: Sequence[Message], assigned: Mapping[str, TailRing]) -> tuple[list[Arrived], list[TailRing]]:
    """Returns what a consumer got, and the rings of the topics that it cannot read any further."""
    found: list[Arrived] = []
    failed: list[TailRing] = []
    for message in messages:
        ring, error = assigned.get(message.topic() or ""), message.error()
        if ring is None:  # a report about the whole consumer
            continue
        if error is None:
            found.append(Arrived(ring, shown(message), offset_of(message) + 1))
        elif error.code() == KafkaError._PARTITION_EOF:
            found.append(Arrived(ring, None, offset_of(message)))
        elif error.code() in LOST:
            failed.append(ring)
    return found, failed
