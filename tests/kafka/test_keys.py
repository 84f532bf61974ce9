"""Idempotency keys of appends to Kafka: a key is written once, whatever the gateways do (docs/kafka.md)."""

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from gateway.configuration.shapes import KafkaTopicDefaults
from gateway.kafka.client import KafkaClients
from gateway.kafka.keyed import KeyedLane
from gateway.kafka.lanes import NewMessage
from gateway.kafka.shapes import TopicSettings
from gateway.kafka.topics import KafkaTopic, KafkaTopics
from tests.deadlines import DEADLINE
from tests.gateway.running import Client, Reply, Running
from tests.instances import until
from tests.kafka.broker import Broker
from tests.kafka.conftest import on, stored

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def other(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Another gateway over the same Kafka."""
    running = Running(tmp_path_factory.mktemp("other"), on(broker))
    yield running.start()
    running.kill()


def append(client: Client, topic: str, key: str, *data: Any) -> Reply:
    answer = client.append(topic, *data, idempotency_key=key)
    assert answer.status in (200, 201), answer.body
    return answer


def test_a_key_is_written_once_and_names_its_records(
    gateway: Running, client: Client, other: Running, name: str
) -> None:
    first = append(client, name, "k-1", 1, 2)
    assert (first.json["seqs"], first.json["deduped"]) == ([1, 2], False)
    assert stored(client, name) == [1, 2]  # at once
    again = client.call("POST", f"/v0/topics/{name}", {"records": [{"data": 1}, {"data": 2}]}, idempotency_key="k-1")
    assert (again.status, again.json["seqs"], again.json["deduped"]) == (200, [1, 2], True)
    with closing(Client(other.port)) as elsewhere:
        assert append(elsewhere, name, "k-1", 1, 2).json["deduped"] is True
        assert append(elsewhere, name, "k-2", 3).json["deduped"] is False
        refused = elsewhere.append(name, 4, idempotency_key="k-2")
        assert (refused.status, refused.code) == (422, "idempotency_mismatch")
    assert append(client, name, "k-2", 3).json["deduped"] is True
    assert client.append(name, 9).status == 200
    assert stored(client, name) == [1, 2, 3, 9]
    client.call("DELETE", f"/v0/topics/{name}")
    assert append(client, name, "k-1", 1, 2).json["deduped"] is False  # another topic
    assert not any(each["topic"].startswith("__") for each in client.get("/v0/topics").json["topics"])


def test_gateways_that_get_the_same_keys_at_once_agree(
    gateway: Running, other: Running, client: Client, name: str
) -> None:
    client.call("PUT", f"/v0/topics/{name}", {})
    seqs: dict[str, set[int]] = {}

    def write(port: int) -> None:
        with closing(Client(port)) as own:
            for n in range(12):
                answer = own.append(name, n, idempotency_key=f"key-{n}")
                while answer.status == 503:
                    answer = own.append(name, n, idempotency_key=f"key-{n}")
                seqs.setdefault(f"key-{n}", set()).add(answer.json["first_seq"])

    writers = [threading.Thread(target=write, args=(each.port,)) for each in (gateway, other, gateway, other)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(2 * DEADLINE)
    assert all(len(each) == 1 for each in seqs.values())
    assert Counter(stored(client, name)) == Counter(range(12))


@pytest.mark.parametrize("ahead_seconds", [-3600, 3600])
def test_a_key_is_known_whatever_the_clock_of_a_gateway_says(
    broker: Broker, name: str, ahead_seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time

    async def append(lane: KeyedLane, topic: KafkaTopic, key: str) -> tuple[int, bool]:
        try:
            return await lane.append(topic, [NewMessage(b"1", None, [], 100)], key)
        finally:
            lane.close()
            await asyncio.to_thread(lane.join)

    async def main() -> list[tuple[int, bool]]:
        clients = KafkaClients({"bootstrap.servers": broker.address}, DEADLINE)
        topics = KafkaTopics(clients, KafkaTopicDefaults(replication_factor=1, min_insync_replicas=1))
        await topics.create(name, TopicSettings())
        topic = await topics.get(name)
        first = await append(KeyedLane(clients, 99, 1), topic, f"{name}-1")  # a lane of this test's own
        monkeypatch.setattr(time, "time", lambda: right() + ahead_seconds)
        return [first, await append(KeyedLane(clients, 99, 1), topic, f"{name}-1")]

    assert asyncio.run(main()) == [(0, False), (0, True)]


def test_a_gateway_that_was_frozen_writes_no_key_a_second_time(
    broker: Broker, client: Client, tmp_path: Any, name: str
) -> None:
    frozen = Running(tmp_path, on(broker)).start()
    try:
        late = frozen.client()
        append(late, name, "before", 0)
        frozen.signal(signal.SIGSTOP)
        answers: list[Reply] = []
        waiting = threading.Thread(target=lambda: answers.append(late.append(name, 1, idempotency_key="both")))
        waiting.start()
        assert append(client, name, "before", 0).json["deduped"] is True
        taken = append(client, name, "both", 1).json
        assert taken["deduped"] is False
        frozen.signal(signal.SIGCONT)
        waiting.join(DEADLINE)
        assert (answers[0].status, answers[0].json["first_seq"]) == (200, taken["first_seq"])
        assert answers[0].json["deduped"] is True
        assert append(late, name, "after", 2).json["deduped"] is False
        assert stored(client, name) == [0, 1, 2]
    finally:
        frozen.kill()


def test_a_gateway_that_dies_leaves_a_key_whole_or_not_at_all(
    broker: Broker, client: Client, tmp_path: Any, name: str
) -> None:
    dying = Running(tmp_path, on(broker)).start()
    acknowledged: list[int] = []

    def write() -> None:
        with closing(Client(dying.port)) as own:
            for n in range(1000):
                try:
                    if own.append(name, n, -n - 1, idempotency_key=f"key-{n}").status in (200, 201):
                        acknowledged.append(n)
                except OSError:
                    return

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: len(acknowledged) >= 5, "appends")
    dying.kill()
    writer.join(DEADLINE)
    last = len(acknowledged)
    for n in range(last + 1):
        answer = append(client, name, f"key-{n}", n, -n - 1).json
        assert answer["deduped"] or n == last
    assert stored(client, name) == [each for n in range(last + 1) for each in (n, -n - 1)]
