"""Tails and readers of a Kafka cluster whose topics change hands meanwhile, or that fail. Most need no broker."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from gateway.configuration.shapes import KafkaTopicDefaults
from gateway.kafka.client import KafkaClients
from gateway.kafka.messages import Shown
from gateway.kafka.readers import KEPT_SECONDS, Fetched, ReaderPool
from gateway.kafka.shapes import TopicSettings
from gateway.kafka.tails import MOST_HELD_BYTES, Arrived, KafkaTail, TailRing, arrived
from gateway.kafka.topics import KafkaTopic, KafkaTopics
from tests.deadlines import DEADLINE
from tests.kafka.broker import Broker

TOPIC = KafkaTopic("orders", "id", 1, {}, frozenset())
DEFAULTS = KafkaTopicDefaults(replication_factor=1, min_insync_replicas=1)
CLIENTS = KafkaClients({}, 1.0)


def records(ring: TailRing, first: int, last: int) -> list[Arrived]:
    return [Arrived(ring, Shown(seq, 0, None, None, None, b"1"), seq) for seq in range(first, last + 1)]


def test_a_ring_gets_no_records_of_the_ring_before() -> None:
    """The thread had read on when the last follower of the first ring left."""
    nothing: Any = SimpleNamespace()
    tail = KafkaTail(CLIENTS, nothing)
    tail.looking = nothing  # no thread
    first = tail.follow(TOPIC, 100)
    tail.arrive(records(first, 101, 150), [])
    tail.leave(first)
    second = tail.follow(TOPIC, 150)
    tail.arrive(records(first, 161, 164), [first])
    tail.arrive(records(second, 151, 169), [])
    assert [each.seq for each in second.after(150)] == list(range(151, 170))
    assert not second.ended


def test_a_ring_holds_few_bytes_of_data_and_meta() -> None:
    ring = TailRing(TOPIC, 0)
    for seq in range(1, 101):
        ring.take(Shown(seq, 0, None, None, b'{"a":"%b"}' % (b"x" * 10_000), b"1"), seq)
    assert 0 < sum(len(each.data) + len(each.meta or b"") for each in ring.held) <= MOST_HELD_BYTES
    assert [each.seq for each in ring.after(98)] == [99, 100]


@pytest.mark.kafka
def test_a_tail_that_failed_ends_its_rings_and_begins_again(
    broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(ring: TailRing, end: int) -> bool:
        """Waits until a ring has ended, or has all before this offset. Returns whether it has ended."""
        ring.tell(news := asyncio.Event())
        async with asyncio.timeout(DEADLINE):
            while not ring.ended and ring.end < end:
                await news.wait()
                news.clear()
        return ring.ended

    async def main() -> None:
        topics = KafkaTopics(clients := KafkaClients({"bootstrap.servers": broker.address}, DEADLINE), DEFAULTS)
        await topics.create(name, TopicSettings())
        producer = clients.producer()
        producer.produce(name, b"1", partition=0)
        assert producer.flush(DEADLINE) == 0
        tail = KafkaTail(clients, topics)
        with monkeypatch.context() as broken:
            broken.setattr("gateway.kafka.tails.arrived", lambda *given: 1 / 0)
            assert await ended(tail.follow(await topics.get(name), 0), 1)
        again = tail.follow(await topics.get(name), 0)
        assert not await ended(again, 1)
        assert [each.data for each in again.after(0)] == [b"1"]
        tail.close()

    asyncio.run(main())


def test_a_topic_that_may_no_longer_be_read_ends_its_ring() -> None:
    """Its followers then read the topic, and their clients get the refusal."""
    ring = TailRing(TOPIC, 0)
    refused = Message(topic=TOPIC.name, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert arrived([refused], {TOPIC.name: ring}) == ([], [ring])


def test_a_place_that_a_client_continues_at_is_left_to_it() -> None:
    class Placed:
        def __init__(self, place: tuple[str, int]) -> None:
            self.place: tuple[str, int] | None = place
            self.used = -KEPT_SECONDS - 1e9
            self.leaving, self.may_leave = threading.Event(), threading.Event()

        def leave(self) -> None:
            self.leaving.set()
            assert self.may_leave.wait(DEADLINE)
            self.place = None

        def read(self, topic: str, offset: int, *bounds: int) -> Fetched:
            return Fetched([], offset)

    async def main() -> None:
        pool: Any = ReaderPool(CLIENTS)
        first, second = Placed(("a", 1)), Placed(("b", 2))
        pool.idle += first, second
        resting = asyncio.create_task(pool.rest())
        await asyncio.to_thread(first.leaving.wait)
        taken = pool.take(("b", 2))
        first.may_leave.set()
        await resting
        assert taken is second
        assert (first.place, second.place, pool.idle) == (None, ("b", 2), [first])

    asyncio.run(main())
