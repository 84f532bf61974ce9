"""Messages of a topic from an offset on: a few consumers that each read one topic at a time.

A consumer that has read ahead stays where it is, so a reader that continues there finds its messages already fetched.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from base.errors import NotReady
from gateway.kafka.client import DENIED, UNKNOWN, KafkaClients, look_up, offset_of, refused
from gateway.kafka.messages import size_of

READERS = 6
KEPT_SECONDS = 5.0  # that an unused consumer keeps its place
OF_A_READER = {
    # A consumer has one request under way to a broker. It holds the next one up, also if that is for another topic.
    "fetch.wait.max.ms": 5,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 5,  # as long as a reader is ahead by these numbers
    "queued.min.messages": 5000,
    "queued.max.messages.kbytes": 4096,
}


class Fetched(NamedTuple):
    """`next`: the offset up to which all is read. Offsets without a message are holes: markers of transactions, aborted or
    compacted records."""

    messages: list[Message]
    next: int


class Passed(Exception):
    """Kafka no longer holds the offset, or does not hold it yet."""


class PlacedReader:
    """A consumer. Its place is the topic and the offset that it returns next."""

    def __init__(self, clients: KafkaClients) -> None:
        self.seconds = clients.seconds
        self.consumer: Consumer = clients.consumer(**OF_A_READER)
        self.place: tuple[str, int] | None = None
        self.held: deque[Message] = deque()  # read, but not returned yet
        self.known: set[str] = set()  # topics whose leader the consumer knows
        self.used = 0.0

    def read(self, topic: str, offset: int, end: int, most: int, most_bytes: int) -> Fetched:
        """Returns the messages from `offset` on and before `end`: at most this many, and at least one if there is one.

        Blocks. Raises Passed, TopicsError.
        """
        if self.place != (topic, offset):
            self.held.clear()
            self.place = None
            self.consumer.assign([TopicPartition(topic, 0, offset)])
            if topic not in self.known:
                look_up(self.consumer, topic)
                self.known.add(topic)
        found: list[Message] = []
        at, size = offset, 0
        try:
            deadline = time.monotonic() + self.seconds
            while at < end and len(found) < most and size < most_bytes:
                if not self.held:
                    self.wait(min(most - len(found), end - at), deadline)
                message = self.held.popleft()
                if message.error() is not None:
                    at = max(at, self.after(message, topic))
                    continue
                offset = offset_of(message)
                if offset >= end:
                    at = end
                    break
                size += size_of(message)
                if found and size > most_bytes:
                    self.held.appendleft(message)
                    break
                at = offset + 1
                found.append(message)
        except BaseException:
            self.leave()
            raise
        self.used = time.monotonic()
        if at < end:
            self.place = topic, at
        else:
            self.leave()  # at the end, a consumer would ask the broker again and again
        return Fetched(found, at)

    def wait(self, most: int, deadline: float) -> None:
        """Waits for a message, and takes those that are there with it. Raises NotReady."""
        left = deadline - time.monotonic()
        message = self.consumer.poll(left) if left > 0 else None
        if message is None:
            raise NotReady("Kafka did not answer in time")
        self.held.append(message)
        if most > 1 and message.error() is None:
            self.held.extend(self.consumer.consume(most - 1, 0))

    def after(self, message: Message, topic: str) -> int:
        """Returns the offset up to which an event that is no message lets a reader advance. Raises Passed, TopicsError."""
        error = message.error()
        assert error is not None
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            return offset_of(message)
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise Passed
        if code in UNKNOWN or code in DENIED or code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise refused(KafkaException(error), topic)
        return 0  # a connection was lost, and librdkafka connects again

    def leave(self) -> None:
        self.place = None
        self.held.clear()
        self.consumer.unassign()

    def close(self) -> None:
        self.consumer.close()


class ReaderPool:
    """The consumers of a Kafka cluster."""

    def __init__(self, clients: KafkaClients) -> None:
        self.clients = clients
        self.idle: list[PlacedReader] = []
        self.made = 0
        self.free = asyncio.Semaphore(READERS)

    async def read(self, topic: str, offset: int, end: int, most: int, most_bytes: int) -> Fetched:
        """Returns messages like PlacedReader.read(). Raises Passed, TopicsError."""
        if offset >= end:
            return Fetched([], offset)
        await self.free.acquire()
        reading = asyncio.ensure_future(self.run(topic, offset, end, most, most_bytes))
        reading.add_done_callback(self.ended)
        return await asyncio.shield(reading)  # its thread uses the consumer to the end, also if the client leaves

    async def run(self, topic: str, offset: int, end: int, most: int, most_bytes: int) -> Fetched:
        with self.clients.used():  # also after the client of the call has left
            reader = self.take((topic, offset))
            if reader is None:
                self.made += 1
                try:
                    reader = await self.clients.run(PlacedReader, self.clients)
                except BaseException:
                    self.made -= 1
                    raise
            try:
                return await self.clients.run(reader.read, topic, offset, end, most, most_bytes)
            finally:
                self.idle.append(reader)

    def ended(self, reading: asyncio.Future[Fetched]) -> None:
        self.free.release()
        if not reading.cancelled():
            reading.exception()  # also of a client that has left

    def take(self, place: tuple[str, int]) -> PlacedReader | None:
        """Returns an idle reader: the one at this place, else the one whose place is the least useful."""
        if not self.idle or (self.made < READERS and all(each.place not in (None, place) for each in self.idle)):
            return None
        best = min(self.idle, key=lambda each: (each.place != place, each.place is not None, each.used))
        self.idle.remove(best)
        return best

    def close(self) -> None:
        """Closes the consumers, which are all idle. Blocks."""
        while self.idle:
            self.idle.pop().close()

    async def rest(self) -> None:
        """Takes consumers from places that nobody has read on from for a while, so that they stop to ask for more."""
        since = time.monotonic() - KEPT_SECONDS
        for each in list(self.idle):
            # A client can continue at the place of a later one meanwhile.
            if each in self.idle and each.place is not None and each.used < since:
                self.idle.remove(each)
                try:
                    await self.clients.run(each.leave)
                finally:
                    self.idle.append(each)
