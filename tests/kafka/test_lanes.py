"""Appends that wait for Kafka: each lane holds a bounded number of bytes, and writes a bounded part of them at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from base.errors import Throttled
from gateway.kafka.client import KafkaClients
from gateway.kafka.keyed import AppendWithKey, KeyedLane
from gateway.kafka.lane import MOST_ROUND_BYTES, MOST_WAITING_BYTES, KafkaLane
from gateway.kafka.lanes import NewMessage, ProducerLane, SendingAppend
from gateway.kafka.topics import KafkaTopic

KIND = pytest.mark.parametrize("has_key", [False, True])
MEBIBYTE = 1024 * 1024
TOPICS = 100


def waiting_lane(has_key: bool) -> KafkaLane[Any, Any]:
    """A lane whose thread takes no round."""
    clients = KafkaClients({}, 1.0)
    lane = KeyedLane(clients, 0, None) if has_key else ProducerLane(clients, "all")
    lane.thread = threading.current_thread()
    return lane


@pytest.fixture
def answer() -> Iterator[asyncio.Future[Any]]:
    loop = asyncio.new_event_loop()
    yield loop.create_future()
    loop.close()


def append(number: int, has_key: bool, answer: asyncio.Future[Any]) -> AppendWithKey | SendingAppend:
    topic = KafkaTopic(f"t{number % TOPICS}", "id", 1, {"max.message.bytes": str(2 * MEBIBYTE)}, frozenset())
    messages = [NewMessage(b"1", None, [], MEBIBYTE)]
    if has_key:
        return AppendWithKey(topic, f"key-{number}", messages, answer)
    return SendingAppend(topic.name, messages, topic.most_bytes, answer)


@KIND
def test_a_lane_refuses_what_is_above_its_bytes_until_a_round_has_taken_some(
    has_key: bool, answer: asyncio.Future[Any]
) -> None:
    lane = waiting_lane(has_key)
    for number in range(MOST_WAITING_BYTES // MEBIBYTE):
        lane.put(append(number, has_key, answer))
    with pytest.raises(Throttled) as refused:
        lane.put(append(999, has_key, answer))
    assert refused.value.detail["limit"] == "waiting_bytes"
    assert len(lane.next_round()) == MOST_ROUND_BYTES // MEBIBYTE
    for number in range(MOST_ROUND_BYTES // MEBIBYTE):
        lane.put(append(number, has_key, answer))
    with pytest.raises(Throttled):
        lane.put(append(999, has_key, answer))


@KIND
def test_a_round_keeps_the_order_of_the_appends_that_it_leaves(has_key: bool, answer: asyncio.Future[Any]) -> None:
    lane = waiting_lane(has_key)
    given = [
        append(number, has_key, answer) for number in (0, TOPICS, 2 * TOPICS, 1, 3 * TOPICS)
    ]  # four of one topic, and one other
    for each in given:
        lane.put(each)
    rounds = []
    while lane.waiting:
        lane.next_round()
        rounds.append([given.index(each) for each in lane.waiting])
    assert rounds == [[1, 2, 4], [2, 4], [4], []]
    assert lane.bytes == 0
