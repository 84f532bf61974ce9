"""Appends with an idempotency key. A key is remembered with its append, in one transaction of Kafka, or neither is there.

Topics share a few lanes, and each lane has a topic of Kafka for its keys. One gateway process at a time owns a lane:
`init_transactions` takes it, waits for the end of the former owner's transaction, and fences that owner. Its commits fail from
then on, also if it was frozen and wakes up. Then the new owner reads the keys. So an owner that does not know a key, and whose
commit succeeds, is the only one that wrote it. If several gateways get appends with keys for topics of one lane, they take it
from each other again and again: this is correct, and slow.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from zlib import crc32

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from base.errors import IdempotencyMismatch, NotReady, TopicsError
from gateway.kafka.client import KafkaClients, look_up
from gateway.kafka.lane import KafkaLane
from gateway.kafka.lanes import LARGEST_BATCH, ONE_BATCH, NewMessage, SendingAppend, TopicBatch, answer_each
from gateway.kafka.readers import Passed, PlacedReader
from gateway.kafka.topics import KafkaTopic

log = logging.getLogger(__name__)
KEYED_LANES = 4
KEYS_TOPIC = "__topics-gateway-keys-{}"  # no name of a topic of ours begins so
TRANSACTIONAL_ID = "topics-gateway-keys-{}"
WINDOW_MS = 120_000  # for which a key is remembered
KEPT_MS = 10 * WINDOW_MS  # in Kafka
TAKES = 8  # of a lane, until an append is refused
FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
LEAST_TRANSACTION_MS = 10_000
FIRST_PAUSE_SECONDS = 0.02


class KeptKey(msgspec.Struct):
    """An append that is remembered. `topic` is the id of its Kafka topic."""

    topic: str
    first: int
    last: int
    digest: str


@dataclass(eq=False)
class AppendWithKey:
    """An append with a key. `answer` gets its first offset, and whether it was there before."""

    topic: KafkaTopic
    key: str
    messages: Sequence[NewMessage]
    answer: asyncio.Future[tuple[int, bool]]
    digest: str = ""
    is_tried: bool = False  # a commit with it may have succeeded, although it seemed to fail
    outcome: tuple[int, bool] | TopicsError | None = field(default=None)

    @property
    def name(self) -> tuple[str, str]:
        return self.topic.name, self.key

    @cached_property
    def size(self) -> int:
        return sum(each.size for each in self.messages)


def monotonic_ms() -> int:
    return int(time.monotonic() * 1000)


class LostLane(Exception):
    """Another gateway has taken the lane, or the outcome of a transaction is unknown."""


class KeyedLane(KafkaLane[AppendWithKey, list[AppendWithKey]]):
    """The keys of some topics, and the thread that writes them."""

    thread_name = "kafka-keys"

    def __init__(self, clients: KafkaClients, number: int, replication_factor: int | None) -> None:
        super().__init__()
        self.clients, self.replication_factor = clients, replication_factor
        self.keys_topic, self.id = KEYS_TOPIC.format(number), TRANSACTIONAL_ID.format(number)
        self.made: Producer | None = None
        # With the time from which this process knows each, in ms of its own clock. Kafka's clock can differ from it.
        self.known: dict[tuple[str, str], tuple[int, KeptKey]] = {}

    async def append(self, topic: KafkaTopic, messages: Sequence[NewMessage], key: str) -> tuple[int, bool]:
        """Appends unless the key is known. Returns the first offset, and whether it was known. Raises TopicsError."""
        told = msgspec.json.encode([(each.value, each.key, each.headers) for each in messages])
        answer: asyncio.Future[tuple[int, bool]] = asyncio.get_running_loop().create_future()
        append = AppendWithKey(topic, key, messages, answer, blake2b(told, digest_size=16).hexdigest())
        self.put(append)
        return await answer

    # -- In its thread -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for chosen in self.rounds():
            try:
                self.settle(chosen)
            except TopicsError as error:
                self.refuse(chosen, error)
            except KafkaException as error:
                log.warning("Kafka: %s", error)
                self.refuse(chosen, NotReady(f"Kafka did not do it: {error.args[0].str()}"))
            except Exception as error:
                log.exception("A lane of keys failed")
                self.refuse(chosen, NotReady(f"the gateway failed: {error}"))
            late = NotReady("Kafka did not answer in time", maybe_written=True)
            settled = [(each.answer, each.outcome or late) for each in chosen]
            chosen[0].answer.get_loop().call_soon_threadsafe(answer_each, settled)
        self.lose()  # closes the producer

    def next_round(self) -> list[AppendWithKey]:
        """Takes the appends of the next transaction: of each topic one batch, and each key once."""
        chosen: list[AppendWithKey] = []
        sizes: dict[str, int] = {}
        names: set[tuple[str, str]] = set()

        def fits(append: AppendWithKey) -> bool:
            held = sizes.get(append.topic.name, 0)
            if append.name in names or (held and held + append.size > append.topic.most_bytes):
                return False
            names.add(append.name)
            sizes[append.topic.name] = held + append.size
            chosen.append(append)
            return True

        self.choose(fits)
        return chosen

    def refuse(self, chosen: Sequence[AppendWithKey], error: TopicsError) -> None:
        self.lose()
        if isinstance(error, NotReady):
            error.detail["maybe_written"] = True
        for each in chosen:
            each.outcome = each.outcome or error

    def settle(self, chosen: Sequence[AppendWithKey]) -> None:
        """Gives each append its outcome. Raises TopicsError, KafkaException."""
        for attempt in range(TAKES):
            for each in chosen:
                each.outcome = each.outcome or self.known_outcome(each)
            rest = [each for each in chosen if each.outcome is None]
            if not rest:
                return
            try:
                if self.made is None:
                    self.take()
                    continue  # the former owner may have written them
                self.write(self.made, rest)
                return
            except LostLane as error:
                log.info("The lane of keys %s is lost: %s", self.id, error)
                self.lose()
                time.sleep(random.uniform(0, FIRST_PAUSE_SECONDS * 2**attempt))  # the other owner can finish meanwhile
        raise NotReady("other gateways write appends with keys at the same time: send again")

    def known_outcome(self, append: AppendWithKey) -> tuple[int, bool] | TopicsError | None:
        """Returns the outcome of an append whose key is known, or None."""
        found = self.known.get(append.name)
        if found is None or found[0] < monotonic_ms() - WINDOW_MS or found[1].topic != append.topic.id:
            return None
        kept = found[1]
        if kept.digest == append.digest:
            return kept.first, not append.is_tried
        return IdempotencyMismatch.of(key=append.key, first_seq=kept.first + 1, last_seq=kept.last + 1)

    def take(self) -> None:
        """Becomes the owner, and reads the keys. Raises LostLane, TopicsError, KafkaException."""
        self.make_topic()
        ms = max(int(self.clients.seconds * 1000), LEAST_TRANSACTION_MS)
        producer = self.clients.producer(
            **{
                "transactional.id": self.id,
                "transaction.timeout.ms": ms,
                "message.timeout.ms": ms,
                "linger.ms": ms // 2,  # until the flush
                **ONE_BATCH,
            }
        )
        self.transactional(lambda: producer.init_transactions(self.clients.seconds))
        self.known = self.read_keys()
        self.made = producer

    def make_topic(self) -> None:
        """Creates the topic of the keys unless it exists. Raises KafkaException."""
        configs = {
            "cleanup.policy": "compact,delete",
            "retention.ms": str(KEPT_MS),
            "segment.ms": str(KEPT_MS),
            "message.timestamp.type": "LogAppendTime",
        }
        topic = NewTopic(self.keys_topic, 1, self.replication_factor or -1, config=configs)
        seconds = self.clients.seconds
        if self.keys_topic in self.clients.admin.list_topics(timeout=seconds).topics:
            return
        try:
            self.clients.admin.create_topics([topic], request_timeout=seconds)[self.keys_topic].result(seconds)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def read_keys(self) -> dict[tuple[str, str], tuple[int, KeptKey]]:
        """Returns the keys that count: those up to a window older than the newest one, by Kafka's clock.

        They count for a whole window from now on, because the age of the newest one is unknown.

        Raises TopicsError, KafkaException.
        """
        found: dict[tuple[str, str], tuple[int, KeptKey]] = {}
        place = TopicPartition(self.keys_topic, 0)
        seconds = self.clients.seconds
        asked = self.clients.admin.list_offsets({place: OffsetSpec.max_timestamp()}, request_timeout=seconds)
        newest = asked[place].result(seconds).timestamp  # -1: there is none
        reader, now = PlacedReader(self.clients), monotonic_ms()
        try:
            look_up(reader.consumer, self.keys_topic)
            place = TopicPartition(self.keys_topic, 0, max(newest - WINDOW_MS, 0))
            (since,) = reader.consumer.offsets_for_times([place], timeout=seconds)
            _, end = reader.consumer.get_watermark_offsets(place, timeout=seconds)
            at = since.offset if since.offset >= 0 else end
            while at < end:
                part = reader.read(self.keys_topic, at, end, 1000, LARGEST_BATCH)
                at = part.next
                for message in part.messages:
                    key, value = message.key(), message.value()
                    if key is not None and value is not None:
                        topic, name = msgspec.json.decode(key, type=tuple[str, str])
                        found[topic, name] = now, msgspec.json.decode(value, type=KeptKey)
        except Passed as error:
            raise LostLane("the keys were removed while they were read") from error
        finally:
            reader.close()
        return found

    def write(self, producer: Producer, chosen: Sequence[AppendWithKey]) -> None:
        """Appends the records and the keys in one transaction. Raises LostLane, KafkaException."""
        self.transactional(producer.begin_transaction)
        batches: dict[str, TopicBatch] = {}
        for each in chosen:
            batch = batches.setdefault(each.topic.name, TopicBatch(each.topic.name))
            batch.add(SendingAppend(each.topic.name, each.messages, each.topic.most_bytes, each.answer))
        try:
            self.send_records(producer, chosen, batches)
            kept = self.send_keys(producer, chosen, batches)
        except (
            KafkaException,
            BufferError,
            SystemError,
        ) as error:  # a fenced client raises SystemError out of a callback
            raise LostLane(str(error)) from error
        for each in chosen:
            each.is_tried = True
        self.transactional(lambda: producer.commit_transaction(self.clients.seconds))
        now = monotonic_ms()
        self.known = {name: each for name, each in self.known.items() if each[0] >= now - WINDOW_MS}
        for append, key in zip(chosen, kept, strict=True):
            self.known[append.name] = now, key
            append.outcome = key.first, False
        for name, batch in batches.items():
            self.until_visible(name, batch.last or 0)

    def send_records(
        self, producer: Producer, chosen: Sequence[AppendWithKey], batches: Mapping[str, TopicBatch]
    ) -> None:
        """Sends the records. Raises LostLane if a batch failed: then nothing is committed, and the next taking aborts it."""
        for name, batch in batches.items():
            look_up(producer, name)
            batch.produce(producer)
        producer.flush(self.clients.seconds)
        failed = {name: refusal for name, batch in batches.items() if (refusal := batch.refusal()) is not None}
        if not failed:
            return
        for each in chosen:
            error = batches[each.topic.name].error
            if error is None or error.code() not in FENCED:
                each.outcome = failed.get(each.topic.name)
        raise LostLane(next(iter(failed.values())).message)

    def send_keys(
        self, producer: Producer, chosen: Sequence[AppendWithKey], batches: Mapping[str, TopicBatch]
    ) -> list[KeptKey]:
        """Sends the key of each append, and returns what is remembered."""
        kept: list[KeptKey] = []
        offsets = {name: (batch.last or 0) - batch.count + 1 for name, batch in batches.items()}
        for each in chosen:
            first = offsets[each.topic.name]
            offsets[each.topic.name] = first + len(each.messages)
            kept.append(KeptKey(each.topic.id, first, first + len(each.messages) - 1, each.digest))
            producer.produce(self.keys_topic, msgspec.json.encode(kept[-1]), msgspec.json.encode(each.name), 0)
        producer.flush(self.clients.seconds)
        return kept

    def transactional(self, call: Callable[[], object]) -> None:
        """Makes a call of a transaction. Raises LostLane if another gateway has fenced this one."""
        try:
            call()
        except KafkaException as error:
            told: KafkaError = error.args[0]
            if told.code() in FENCED or told.fatal() or told.txn_requires_abort():
                raise LostLane(told.str()) from error
            raise

    def until_visible(self, topic: str, offset: int) -> None:
        """Waits until readers see a record of a committed transaction: Kafka answers before it shows the records."""
        deadline = time.monotonic() + self.clients.seconds
        place = TopicPartition(topic, 0)
        while time.monotonic() < deadline:
            _, end = self.clients.asker.get_watermark_offsets(place, timeout=self.clients.seconds)
            if end > offset:
                return
            time.sleep(0.001)

    def lose(self) -> None:
        self.made = None
        self.known = {}


class KeyedLanes:
    """All lanes of a Kafka cluster."""

    def __init__(self, clients: KafkaClients, replication_factor: int | None) -> None:
        self.all = [KeyedLane(clients, number, replication_factor) for number in range(KEYED_LANES)]

    def lane(self, topic: str) -> KeyedLane:
        return self.all[crc32(topic.encode()) % KEYED_LANES]

    def close(self) -> None:
        for each in self.all:
            each.close()

    def join(self) -> None:
        for each in self.all:
            each.join()
