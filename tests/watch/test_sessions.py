"""POST /v0/watch: the answer of a session, and refused sessions."""

import re

import pytest

from tests.watch.wire import Api, new_name


def test_it_works(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    answer = api.call("POST", "/v0/watch", {"topics": {name: {}}})
    assert answer.status == 200
    assert re.fullmatch(r"wid_[A-Za-z0-9_-]{22}", answer.body["wid"])
    assert answer.body["stream_url"] == f"/v0/watch/{answer.body['wid']}"
    assert (answer.body["session_ttl_ms"], answer.body["first_ttl_ms"]) == (300_000, 30_000)
    assert answer.body["topics"] == {name: {"from_seq": 0, "head_seq": 3, "earliest_seq": 1}}
    assert answer.body["performance"]["server_total_ms"] > 0


def test_wids_are_random(api: Api, name: str) -> None:
    api.append(name, 1)
    assert len({api.watch({name: {}}) for _ in range(20)}) == 20


def test_it_begins_where_it_is_told(api: Api, name: str) -> None:
    api.append(name, *range(10))
    begins = [({"from_seq": 4}, 4), ({"tail": True}, 10), ({"tail": False}, 0), ({"from_seq": 99}, 99)]
    for start, from_seq in begins:
        answer = api.done("POST", "/v0/watch", {"topics": {name: start}})
        assert answer["topics"][name]["from_seq"] == from_seq


def test_it_begins_at_a_time(api: Api, name: str) -> None:
    api.append(name, 1, 2)
    ts = api.done("POST", f"/v0/topics/{name}/diff", {})["records"][0]["$ts"]
    for from_ts, from_seq in ((0, 0), (ts, 0), (ts + 3_600_000, 2)):
        answer = api.done("POST", "/v0/watch", {"topics": {name: {"from_ts": from_ts}}})
        assert answer["topics"][name]["from_seq"] == from_seq


def test_an_unknown_topic_is_refused(api: Api, name: str) -> None:
    answer = api.call("POST", "/v0/watch", {"topics": {name: {}}})
    assert (answer.status, answer.body["error"]["code"]) == (404, "topic_not_found")


def test_lenient_drops_an_unknown_topic(api: Api, name: str) -> None:
    api.append(name, 1)
    answer = api.call("POST", "/v0/watch?lenient=true", {"topics": {name: {}, new_name(): {}}})
    assert (answer.status, list(answer.body["topics"])) == (200, [name])


@pytest.mark.parametrize(
    "options",
    [
        {"topics": {}},
        {"topics": []},
        {"topics": {"bad name": {}}},
        {"topics": {"t": {"from_seq": -1}}},
        {"topics": {"t": {"from_seq": "1"}}},
        {"topics": {"t": {"from_seq": 1, "tail": True}}},
        {"topics": {"t": {"from_seq": 1, "from_ts": 1}}},
        {"topics": {"t": {"match": ["tag", "Glob", "a*b"]}}},
        {"topics": {"t": {"match": ["node", "Eq", "a"]}}},
        {"topics": {"t": None}},
        {"topics": {"t": {}}, "heartbeat_ms": 999},
        {"topics": {"t": {}}, "heartbeat_ms": 60_001},
        {"topics": {"t": {}}, "limit": 0},
        {"topics": {"t": {}}, "max_batch_bytes": 0},
        {"topics": {"t": {}}, "consistency": "maybe"},
        {"topics": {"t": {}}, "node": "x" * 129},
        {"topics": {"t": {}}, "node": 7},
        {"topics": {"t": {}}, "node": [str(place) for place in range(1001)]},
        {"topics": {"t": {"match": "x" * 257}}},
        {"topics": {"t": {"match": ["tag", "Glob", "x" * 257 + "*"]}}},
        {"topics": {f"t{place}": {} for place in range(257)}},
        {},
        [],
    ],
)
def test_what_makes_no_sense_is_refused(api: Api, options: object) -> None:
    answer = api.call("POST", "/v0/watch", options)
    assert (answer.status, answer.body["error"]["code"]) == (400, "invalid_request"), answer


def test_a_body_that_is_no_json(api: Api) -> None:
    assert api.call("POST", "/v0/watch").status == 400  # no body at all is no object either
    assert api.call("POST", "/v0/watch", {}, **{"Content-Type": "text/plain"}).status == 415


def test_other_methods(api: Api, name: str) -> None:
    api.append(name, 1)
    assert api.call("GET", "/v0/watch").status == 405
    assert api.call("POST", api.watch({name: {}}), {}).status == 405
    assert api.call("DELETE", api.watch({name: {}})).status == 405


def test_256_topics(api: Api) -> None:
    topics = [new_name("many") for _ in range(256)]
    for topic in topics:
        api.append(topic, "x")
    with api.stream(api.watch({topic: {} for topic in topics})) as stream:
        caught_up: set[str] = set()
        events = stream.until(
            lambda e: e.name == "caught-up" and (caught_up.add(e.data["topic"]) or len(caught_up) == 256)
        )
    assert sorted(e.data["topic"] for e in events if e.name == "record") == sorted(topics)
    assert events[-1].place == dict.fromkeys(topics, 1)
