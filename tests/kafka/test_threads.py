"""A gateway whose machine has no thread to give for a while goes on afterwards. No broker is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from base.errors import NotReady, TopicsError
from gateway.configuration.shapes import KafkaDefinition, KafkaTopicDefaults
from gateway.kafka.client import KafkaClients
from gateway.kafka.keyed import KeyedLane
from gateway.kafka.lanes import NewMessage, ProducerLane
from gateway.kafka.readers import ReaderPool
from gateway.kafka.serve import KafkaEngine
from gateway.kafka.topics import KafkaTopic
from gateway.kafka.version import ClusterVersion
from gateway.proxy.upstreams import EngineNode
from tests.deadlines import DEADLINE
from tests.instances import free_port
from tests.threads import no_thread

TOPIC = KafkaTopic("orders", "id", 1, {}, frozenset())
MESSAGES = [NewMessage(b"1", None, [], 1)]
SECONDS = 0.1  # for a call of Kafka, which nothing answers


def settings() -> dict[str, Any]:
    return {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0}


@pytest.mark.parametrize("has_key", [False, True])
def test_a_lane_whose_thread_could_not_start_answers_later_appends(has_key: bool) -> None:
    async def main() -> None:
        clients = KafkaClients(settings(), SECONDS)
        keyed, plain = KeyedLane(clients, 0, None), ProducerLane(clients, "all")

        def append() -> Awaitable[object]:
            return keyed.append(TOPIC, MESSAGES, "key") if has_key else plain.append(TOPIC.name, MESSAGES, 1000)

        with no_thread(), pytest.raises(NotReady, match="can't start new thread"):
            await append()
        assert (keyed.bytes, plain.bytes) == (0, 0)
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(TopicsError, match="Kafka"):
                await append()
        for lane in (keyed, plain):
            lane.close()
            lane.join()

    asyncio.run(main())


def test_a_reader_that_could_not_start_is_not_counted() -> None:
    async def main() -> None:
        pool = ReaderPool(KafkaClients(settings(), SECONDS))
        with no_thread(), pytest.raises(RuntimeError, match="can't start new thread"):
            await pool.read(TOPIC.name, 0, 1, 1, 1)
        assert (pool.made, pool.idle) == (0, [])

    asyncio.run(main())


def test_clients_that_could_not_be_closed_are_closed_later() -> None:
    async def main() -> None:
        version = ClusterVersion(settings(), KafkaTopicDefaults(), SECONDS)
        with no_thread():
            version.retire()
        async with asyncio.timeout(DEADLINE):
            while await is_open(lambda: version.clients.run(int)):
                await asyncio.sleep(SECONDS)

    async def is_open(call: Callable[[], Awaitable[int]]) -> bool:
        try:
            await call()
        except RuntimeError:  # its threads have ended
            return False
        return True

    asyncio.run(main())


def test_a_probe_without_a_thread_counts_as_failed(tmp_path: Path) -> None:
    async def main() -> None:
        definition = KafkaDefinition(bootstrap_servers=settings()["bootstrap.servers"])
        node = EngineNode("big", KafkaEngine(definition, tmp_path, SECONDS))
        with no_thread():
            await node.probe()
        assert node.state == "down"
        node.close(at_once=True)

    asyncio.run(main())
