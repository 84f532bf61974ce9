import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.gateway.conftest import name, streams  # noqa: F401  # fixtures
from tests.gateway.running import Client, Running
from tests.kafka.broker import Broker

NO_JARS = "The tests of Kafka need its jars: run `make kafka`"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests: use topics of your own."""
    assert os.environ.get("KAFKA_JARS"), NO_JARS
    made = Broker(tmp_path_factory.mktemp("kafka"))
    made.format()
    made.start()
    yield made
    made.kill()


def on(broker: Broker, **more: Any) -> dict[str, Any]:
    """A gateway's configuration: a Kafka cluster behind one address."""
    return cluster_of(broker.address, "127.0.0.1", **more)


def cluster_of(address: str, *hosts: str, **more: Any) -> dict[str, Any]:
    kafka = {"bootstrapServers": address, "topicDefaults": {"replicationFactor": 1, "minInsyncReplicas": 1}}
    gateways = [{"host": host} for host in hosts]
    return {
        "clusterDefinitions": [{"name": "big", "kafka": kafka, **more}],
        "virtualClusters": [{"name": "all", "gateways": gateways, "target": {"cluster": "big"}}],
    }


def stored(client: Client, topic: str) -> list[Any]:
    """The data of all records of a topic, in order, however many pages they fill."""
    found: list[Any] = []
    at, is_caught_up = 0, False
    while not is_caught_up:
        page = client.post(f"/v0/topics/{topic}/diff", {"from_seq": at, "limit": 1000}).json
        found += [each["data"] for each in page["records"]]
        at, is_caught_up = page["next_from_seq"], page["caught_up"]
    return found


@pytest.fixture(scope="session")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("gateway"), on(broker), {"GATEWAY_KEY": "k" * 32})
    with ExitStack() as stack:
        stack.callback(running.kill)
        yield running.start()


@pytest.fixture
def client(gateway: Running) -> Iterator[Client]:
    with closing(Client(gateway.port)) as connected:
        yield connected
