"""Tails and readers of a Kafka cluster whose topics change hands meanwhile, without a broker."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from gateway.kafka.client import KafkaClients
from gateway.kafka.messages import Shown
from gateway.kafka.readers import KEPT_SECONDS, Fetched, ReaderPool
from gateway.kafka.tails import Arrived, KafkaTail, TailRing
from gateway.kafka.topics import KafkaTopic
from tests.deadlines import DEADLINE

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
