"""GET /v0/topics/:topic/records/:seq of forwarded records: the home, and each router on the way. Reads over many hops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.api.clients import ApiClient
from tests.routers.conftest import read, route


def chain(live: ApiClient, names: Iterator[str], hops: int) -> tuple[list[str], list[str]]:
    topics = [next(names) for _ in range(hops + 1)]
    return topics, [route(live, *ends, next(names)) for ends in itertools.pairwise(topics)]


def test_a_record_shows_its_home_and_each_router(api: ApiClient, names: Iterator[str]) -> None:
    topics, routers = chain(api, names, 3)
    api.append(topics[1], "aside")
    read(api, topics[3])
    api.post(f"/v0/topics/{topics[0]}", {"records": [{"data": 7, "node": "n", "tag": "t", "meta": {"m": 1}}]})
    read(api, topics[3])
    for hops, topic in enumerate(topics):
        seq = 1 if hops == 0 else 2
        found = api.get(f"/v0/topics/{topic}/records/{seq}").json
        assert found["path"] == {"topic": topics[0], "seq": 1, "routers": routers[:hops]}
        record = found.get("record", found)
        assert (record["$seq"], record["data"], record["$node"], record["meta"]) == (seq, 7, "n", {"m": 1})


def test_the_way_is_known_when_home_and_routers_are_gone(api: ApiClient, names: Iterator[str]) -> None:
    topics, routers = chain(api, names, 2)
    api.append(topics[0], "x")
    read(api, topics[2])
    for topic in topics[:2]:
        api.delete(f"/v0/topics/{topic}")
    api.append(topics[0], "of a new topic of that name")
    found = api.get(f"/v0/topics/{topics[2]}/records/1").json
    assert found["path"] == {"topic": topics[0], "seq": 1, "routers": routers}


def test_what_a_topic_does_not_show_has_no_record(api: ApiClient, names: Iterator[str]) -> None:
    topics, _ = chain(api, names, 1)
    api.append(topics[0], 1, 2, 3)
    read(api, topics[1])
    api.post(f"/v0/topics/{topics[1]}/delete", {"before_seq": 2})
    assert api.get(f"/v0/topics/{topics[1]}/records/1").code == "not_found"
    assert api.get(f"/v0/topics/{topics[0]}/records/1").status == 200
    assert api.get(f"/v0/topics/{topics[1]}/records/4").code == "not_found"


@pytest.mark.guarantee("F4")
def test_a_read_sees_what_was_acked_before_it_over_eight_hops(live: ApiClient, names: Iterator[str]) -> None:
    topics, _ = chain(live, names, 8)
    for number in range(10):
        live.append(topics[0], number)
        assert read(live, topics[8]) == list(range(number + 1))


@pytest.mark.guarantee("F4")
def test_every_way_to_read_a_dest_sees_it(api: ApiClient, names: Iterator[str]) -> None:
    topics, _ = chain(api, names, 2)
    api.append(topics[0], 1)
    assert api.get(f"/v0/topics/{topics[2]}").json["head_seq"] == 1
    api.append(topics[0], 2)
    assert api.get(f"/v0/topics/{topics[2]}/records").json["head_seq"] == 2
    api.append(topics[0], 3)
    assert api.get(f"/v0/topics/{topics[2]}/records/3").json["data"] == 3
    api.append(topics[0], 4)
    assert api.post(f"/v0/topics/{topics[2]}/delete", {"before_seq": 5}).json["deleted"] == 4


def test_no_chain_is_too_long_without_a_cycle(api: ApiClient, names: Iterator[str]) -> None:
    topics, routers = chain(api, names, 12)
    api.append(topics[0], "far")
    assert read(api, topics[12]) == ["far"]
    assert api.get(f"/v0/topics/{topics[12]}/records/1").json["path"]["routers"] == routers


def test_on_a_cycle_a_record_goes_through_eight_routers_at_most(api: ApiClient, names: Iterator[str]) -> None:
    topics, _ = chain(api, names, 11)
    route(api, topics[11], topics[0], allow_cycle=True)
    api.append(topics[0], "far")
    assert [len(read(api, topic)) for topic in topics] == [1] * 9 + [0] * 3
