"""Routers and filters treat a Kafka cluster like a server (docs/kafka.md)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.gateway.running import Client, Running, cluster, route
from tests.gateway.streams import Stream
from tests.instances import Instance
from tests.kafka.broker import Broker
from tests.kafka.conftest import on

pytestmark = pytest.mark.kafka


def mixed(server: Instance, broker: Broker) -> dict[str, Any]:
    """One virtual cluster for a server and a Kafka cluster by names, one for both as a union, and one for a part of Kafka."""
    by_name = {"prefixes": {"big.": "big"}, "default": "small"}
    routes = [route("big", 0, cluster="big"), route("small", 1, cluster="small")]
    return {
        "clusterDefinitions": [*on(broker)["clusterDefinitions"], cluster("small", server.port)],
        "filterDefinitions": [{"name": "own", "type": "Prefix", "config": {"prefix": "acme."}}],
        "routerDefinitions": [
            {"name": "names", "type": "TopicRouter", "config": by_name, "routes": routes},
            {"name": "both", "type": "UnionRouter", "routes": routes},
        ],
        "virtualClusters": [
            {"name": "by-name", "gateways": [{"prefix": "/names"}], "target": {"router": "names"}},
            {"name": "union", "gateways": [{"prefix": "/union"}], "target": {"router": "both"}},
            {"name": "acme", "gateways": [{"prefix": "/acme"}], "filters": ["own"], "target": {"cluster": "big"}},
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def several(server: Instance, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("several"), mixed(server, broker))
    yield running.start()
    running.kill()


@pytest.fixture
def at(several: Running) -> Iterator[Callable[[str], Client]]:
    """`at(prefix)` is a connection to a virtual cluster."""
    with ExitStack() as stack:
        yield lambda prefix: stack.enter_context(closing(Client(several.port, prefix=prefix)))


@pytest.fixture
def streams(several: Running) -> Iterator[Callable[..., Stream]]:
    with ExitStack() as stack:
        yield lambda *wanted: stack.enter_context(closing(Stream(several, *wanted)))


def test_a_topic_lives_where_its_name_leads(at: Callable[[str], Client], broker: Broker, name: str) -> None:
    client = at("/names")
    assert client.append(f"big.{name}", 1).json["last_seq"] == 1
    assert client.append(name, 2, expected_head=0).json["last_seq"] == 1
    assert client.append(f"big.{name}", 2, expected_head=1).code == "not_supported"
    assert client.post(f"/v0/topics/big.{name}/diff", {}).json["records"][0]["data"] == 1
    offered = {
        call["operationId"] for calls in client.get("/v0/schema").json["paths"].values() for call in calls.values()
    }
    assert {"append", "claim"} <= offered  # the server offers it
    assert client.post(f"/v0/topics/big.{name}/claim", {"node": "n"}).code == "not_supported"


def test_a_union_lists_and_watches_both(at: Callable[[str], Client], streams: Callable[..., Stream], name: str) -> None:
    client = at("/union")
    big, small = f"big.{name}", f"small.{name}"
    for topic in (big, small):
        assert client.append(topic, topic).status == 201
    listed = [each["topic"] for each in client.get(f"/v0/topics?prefix=big.{name}").json["topics"]]
    assert listed == [big]
    url = client.post("/v0/watch", {"topics": {big: {}, small: {}}}).json["stream_url"]
    stream = streams(url)
    assert stream.records(2) == {big: [big], small: [small]}
    client.append(big, 2)
    assert stream.records(1) == {big: [2]}
    client.append(big, 3)
    client.append(small, 4)
    assert streams(url, f"last-event-id: {stream.id}").records(2) == {big: [3], small: [4]}


def test_a_prefix_hides_other_topics(at: Callable[[str], Client], streams: Callable[..., Stream], name: str) -> None:
    client = at("/acme")
    client.append(name, "own")
    at("/names").append(f"big.{name}", "foreign")
    assert [each["topic"] for each in client.get(f"/v0/topics?prefix={name}").json["topics"]] == [name]
    assert client.get(f"/v0/topics/big.{name}").code == "topic_not_found"
    url = client.post("/v0/watch", {"topics": {name: {}}}).json["stream_url"]
    stream = streams(url)
    assert stream.records(1) == {name: ["own"]}
    client.append(name, "next")
    assert streams(url, f"last-event-id: {stream.id}").records(1) == {name: ["next"]}
    made = client.call("PUT", f"/v0/topics/{name}/cursors/{name}", {"at": "head"})
    assert (made.status, made.json["topic"]) == (201, name)
