"""Tails and readers of a Kafka cluster whose topics change hands meanwhile, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.kafka.client import KafkaClients
from gateway.kafka.messages import Shown
from gateway.kafka.tails import Arrived, KafkaTail, TailRing
from gateway.kafka.topics import KafkaTopic

TOPIC = KafkaTopic("orders", "id", 1, {}, frozenset())
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
