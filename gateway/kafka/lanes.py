"""Batches of appends. All records of an append get consecutive offsets, or none of them is written.

Kafka writes one batch of a partition as a whole and at once: no record of another producer comes between, and the idempotent
producer repeats a batch as it was. So a lane sends an append in one batch. It collects the appends that wait, gives all their
messages to librdkafka, which holds them (`linger.ms`), and then flushes. librdkafka makes one batch of the messages of a topic
that are there when the flush begins, and the lane gives it no more of them until the flush has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from base.errors import NotReady, TopicsError
from gateway.kafka.client import KafkaClients, look_up, refused
from gateway.kafka.lane import KafkaLane

log = logging.getLogger(__name__)
LANES = 4  # a topic has one, so a leader that hangs delays a quarter of the topics
LARGEST_BATCH = 64 * 1024 * 1024
# librdkafka makes one batch of all that a flush finds.
ONE_BATCH = {
    "batch.num.messages": 1_000_000,
    "batch.size": 2**31 - 1,
    "message.max.bytes": LARGEST_BATCH,
    "queue.buffering.max.messages": 10_000_000,
}


MessageHeaders = list[tuple[str, str | bytes | None]]


class NewMessage(NamedTuple):
    value: bytes
    key: bytes | None
    headers: MessageHeaders
    size: int  # bytes of the message in a batch, at most


class SendingAppend:
    """An append on its way. `most_bytes`: the largest batch that the topic takes. `answer` gets the first offset."""

    __slots__ = ("answer", "messages", "most_bytes", "size", "topic")

    def __init__(
        self, topic: str, messages: Sequence[NewMessage], most_bytes: int, answer: asyncio.Future[Any]
    ) -> None:
        self.topic, self.messages, self.most_bytes, self.answer = topic, messages, most_bytes, answer
        self.size = sum(each.size for each in messages)


class TopicBatch:
    """The appends of one flush to a topic, which are one batch of Kafka.

    Only its first and its last message report their offsets: each report waits for Python's lock.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.appends: list[SendingAppend] = []
        self.size = self.count = 0
        self.error: KafkaError | None = None
        self.first: int | None = None
        self.last: int | None = None

    def add(self, append: SendingAppend) -> None:
        self.appends.append(append)
        self.size += append.size
        self.count += len(append.messages)

    def produce(self, producer: Producer) -> None:
        """Gives the messages to librdkafka. Raises BufferError, KafkaException."""
        place = 0
        for append in self.appends:
            for value, key, headers, _ in append.messages:
                place += 1
                more: dict[str, Any] = {}
                if place == self.count:
                    more["on_delivery"] = self.last_done
                elif place == 1:
                    more["on_delivery"] = self.first_done
                producer.produce(self.topic, value, key, 0, headers=headers, **more)

    def first_done(self, error: KafkaError | None, message: Message) -> None:
        self.first = message.offset()

    def last_done(self, error: KafkaError | None, message: Message) -> None:
        self.error, self.last = error, message.offset()

    def outcomes(self) -> Iterator[tuple[asyncio.Future[int], int | TopicsError]]:
        """Yields the answer of each append, and its first offset or its error."""
        refusal = self.refusal()
        offset = (self.last or 0) - self.count + 1
        for append in self.appends:
            yield append.answer, offset if refusal is None else refusal
            offset += len(append.messages)

    def refusal(self) -> TopicsError | None:
        if self.error is not None:
            error = refused(KafkaException(self.error), self.topic)
            if isinstance(error, NotReady):
                error.detail["maybe_written"] = True
            return error
        if self.last is None:
            return NotReady("Kafka did not answer in time", maybe_written=True)
        if self.count > 1 and self.first != self.last - self.count + 1:
            log.error("The batch of %d records to %s became several batches", self.count, self.topic)
            return NotReady(
                "Kafka stored the append in pieces: read the topic before you send it again", maybe_written=True
            )
        return None


class ProducerLane(KafkaLane[SendingAppend, list[TopicBatch]]):
    """One producer and its thread. `acks`: `all` or `1`."""

    thread_name = "kafka-lane"

    def __init__(self, clients: KafkaClients, acks: str) -> None:
        super().__init__()
        self.clients, self.acks = clients, acks
        self.made: Producer | None = None
        self.known: set[str] = set()  # topics whose leader the producer knows

    async def append(self, topic: str, messages: Sequence[NewMessage], most_bytes: int) -> int:
        """Appends the messages. Returns the offset of the first. Raises TopicsError."""
        sending = SendingAppend(topic, messages, most_bytes, asyncio.get_running_loop().create_future())
        self.put(sending)
        return await sending.answer

    def run(self) -> None:
        for batches in self.rounds():
            try:
                self.write(batches)
                settled = [each for batch in batches for each in batch.outcomes()]
            except Exception as error:
                log.exception("A lane failed")
                self.made = None
                failure = NotReady(f"the gateway failed: {error}", maybe_written=True)
                settled = [(append.answer, failure) for batch in batches for append in batch.appends]
            settled[0][0].get_loop().call_soon_threadsafe(answer_each, settled)
        self.made = None  # closes the producer

    def next_round(self) -> list[TopicBatch]:
        """Takes the appends of the next flush. An append that must wait holds back the later ones of its topic."""
        batches: dict[str, TopicBatch] = {}
        full: set[str] = set()

        def fits(append: SendingAppend) -> bool:
            batch = batches.setdefault(append.topic, TopicBatch(append.topic))
            if append.topic in full or (batch.size and batch.size + append.size > append.most_bytes):
                full.add(append.topic)
                return False
            batch.add(append)
            return True

        self.choose(fits)
        return list(batches.values())

    def write(self, batches: Sequence[TopicBatch]) -> None:
        """Sends the batches and waits for Kafka's answers."""
        producer = self.producer()
        for topic in {each.topic for each in batches} - self.known:
            look_up(producer, topic)
            self.known.add(topic)
        try:
            for each in batches:
                each.produce(producer)
        except (BufferError, KafkaException):
            # Nothing was sent yet, because librdkafka still holds all of it.
            producer.purge(in_flight=False)
            producer.flush(self.clients.seconds)
            raise
        producer.flush(self.clients.seconds * 1.5)
        if any(each.error is not None and each.error.fatal() for each in batches):
            self.made = None  # an idempotent producer that lost its place takes no more messages

    def producer(self) -> Producer:
        if self.made is None:
            self.known.clear()
            ms = int(self.clients.seconds * 1000)
            self.made = self.clients.producer(
                **{
                    "acks": self.acks,
                    "enable.idempotence": self.acks == "all",
                    "linger.ms": max(ms // 2, 1),  # until the flush
                    **ONE_BATCH,
                    "message.timeout.ms": max(ms, 2),
                    **({} if self.acks == "all" else {"max.in.flight": 1, "retries": 0}),
                }
            )
        return self.made


def answer_each(settled: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    """Gives each append its outcome: a result, or a TopicsError."""
    for answer, outcome in settled:
        if answer.done():  # its client has left
            continue
        if isinstance(outcome, TopicsError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)


class ProducerLanes:
    """All lanes of a Kafka cluster: for topics whose acknowledged records all replicas in sync have, and for `memory`."""

    def __init__(self, clients: KafkaClients) -> None:
        self.safe = [ProducerLane(clients, "all") for _ in range(LANES)]
        self.quick = [ProducerLane(clients, "1") for _ in range(LANES)]

    def lane(self, topic: str, durability: str) -> ProducerLane:
        return (self.quick if durability == "memory" else self.safe)[crc32(topic.encode()) % LANES]

    def close(self) -> None:
        for each in (*self.safe, *self.quick):
            each.close()

    def join(self) -> None:
        for each in (*self.safe, *self.quick):
            each.join()
