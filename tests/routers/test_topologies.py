"""Five nodes that read each other, in a ring, over a hub, in meshes: each gets the others' records once (docs/routers.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from tests.api.clients import ApiClient
from tests.routers.conftest import read, route

NODES = ["api-fra-1", "api-iad-1", "api-sin-1", "api-gru-1", "api-syd-1"]
ROUNDS = 3


def write_in_turns(live: ApiClient, topic_of: dict[str, str]) -> None:
    """Each node writes to its topic, round by round, and all are read in between, so that records cross on their way."""
    for number in range(ROUNDS):
        for node, topic in topic_of.items():
            live.append(topic, f"{node} {number}", node=node)
        for topic in set(topic_of.values()):
            live.diff(topic)


def written(nodes: list[str]) -> list[str]:
    return sorted(f"{node} {number}" for node in nodes for number in range(ROUNDS))


def others(node: str) -> list[str]:
    return [other for other in NODES if other != node]


def in_order(shown: list[str], node: str) -> bool:
    own = [data for data in shown if data.startswith(node)]
    return own == sorted(own)


def check_everybody_reads_the_others(live: ApiClient, topic_of: dict[str, str]) -> None:
    for node, topic in topic_of.items():
        shown = read(live, topic, node=node)
        assert sorted(shown) == written(others(node))
        assert all(in_order(shown, other) for other in others(node))


@pytest.fixture
def topic_of(names: Iterator[str]) -> dict[str, str]:
    return {node: next(names) for node in NODES}


def test_a_ring(api: ApiClient, topic_of: dict[str, str]) -> None:
    topics = list(topic_of.values())
    for source, dest in zip(topics, [*topics[1:], topics[0]], strict=True):
        route(api, source, dest, allow_cycle=True)
    write_in_turns(api, topic_of)
    check_everybody_reads_the_others(api, topic_of)


def test_a_ring_both_ways(api: ApiClient, topic_of: dict[str, str]) -> None:
    topics = list(topic_of.values())
    for source, dest in zip(topics, [*topics[1:], topics[0]], strict=True):
        route(api, source, dest, allow_cycle=True, allow_fan_in=True)
        route(api, dest, source, allow_cycle=True, allow_fan_in=True)
    write_in_turns(api, topic_of)
    check_everybody_reads_the_others(api, topic_of)


def test_a_hub_that_all_write_to(api: ApiClient, names: Iterator[str], topic_of: dict[str, str]) -> None:
    hub = next(names)
    for topic in topic_of.values():
        route(api, hub, topic)
    write_in_turns(api, dict.fromkeys(NODES, hub))
    check_everybody_reads_the_others(api, topic_of)
    check_everybody_reads_the_others(api, dict.fromkeys(NODES, hub))


def test_a_full_mesh_with_an_inbox_for_each_pair(
    api: ApiClient, names: Iterator[str], topic_of: dict[str, str]
) -> None:
    inbox = {pair: next(names) for pair in permutations(NODES, 2)}
    for (writer, _), topic in inbox.items():
        route(api, topic_of[writer], topic)
    write_in_turns(api, topic_of)
    for reader in NODES:
        for writer in others(reader):
            assert read(api, inbox[writer, reader], node=reader) == written([writer])


def test_a_full_mesh_of_one_topic_a_node(api: ApiClient, topic_of: dict[str, str]) -> None:
    for source, dest in permutations(topic_of.values(), 2):
        route(api, source, dest, allow_cycle=True, allow_fan_in=True)
    write_in_turns(api, topic_of)
    check_everybody_reads_the_others(api, topic_of)
    assert all(sorted(read(api, topic)) == written(NODES) for topic in topic_of.values())


@pytest.mark.guarantee("F3")
def test_a_full_mesh_that_the_workers_move(live: ApiClient, topic_of: dict[str, str]) -> None:
    for source, dest in permutations(topic_of.values(), 2):
        route(live, source, dest, f"{source}.{dest}", allow_cycle=True, allow_fan_in=True)
    write_in_turns(live, topic_of)
    check_everybody_reads_the_others(live, topic_of)


def test_a_hub_with_spokes_both_ways(api: ApiClient, names: Iterator[str], topic_of: dict[str, str]) -> None:
    hub = next(names)
    for topic in topic_of.values():
        route(api, topic, hub, allow_cycle=True, allow_fan_in=True)
        route(api, hub, topic, allow_cycle=True)
    write_in_turns(api, topic_of)
    check_everybody_reads_the_others(api, topic_of)


def test_an_origin_that_a_router_clears_is_no_longer_filtered(api: ApiClient, names: Iterator[str]) -> None:
    source, kept, cleared, after = next(names), next(names), next(names), next(names)
    route(api, source, kept)
    route(api, source, cleared, preserve_node=False)
    route(api, cleared, after)
    api.append(source, 1, node="n")
    assert read(api, kept, node="n") == []
    for topic in (cleared, after):
        (record,) = api.diff(topic, node="n").json["records"]
        assert "$node" not in record
