"""POST /v0/topics/:topic/mirror: each record once, with its position, on any number of ways."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.api.clients import ApiClient, HttpClient, Reply
from tests.deadlines import DEADLINE
from tests.instances import Instance
from tests.watch.wire import Api

META_LIMIT, KEYS_LIMIT = 16_384, 64


@pytest.fixture
def api(server: Instance) -> ApiClient:
    return HttpClient(server.port)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"mirror-{abs(hash(request.node.nodeid)):x}"


def record(seq: int, **more: Any) -> dict[str, Any]:
    return {"$seq": seq, "$ts": 1000 + seq, "data": seq, **more}


def hand_over(api: ApiClient, topic: str, from_seq: int, *records: dict[str, Any], **more: Any) -> Reply:
    upto = more.pop("next_from_seq", records[-1]["$seq"] if records else from_seq)
    body = {"here": "iad", "source": "fra", "from_seq": from_seq, "next_from_seq": upto, "records": records, **more}
    return api.post(f"/v0/topics/{topic}/mirror", body)


def held(api: ApiClient, topic: str) -> list[Any]:
    found: list[Any] = api.diff(topic, include_tags=True, limit=1000).json["records"]
    return found


def data(api: ApiClient, topic: str) -> list[Any]:
    return [each["data"] for each in held(api, topic)]


def stamp(seq: int, site: str, topic: str) -> dict[str, Any]:
    return {"_topics_mirror": {"topic": topic, "site": site, "seq": seq, "ts": 1}}


def test_a_handover_appends_with_node_tag_meta_and_origin(api: ApiClient, topic: str) -> None:
    first = record(3, **{"$node": "shop", "$tag": "paid", "meta": {"a": 1.50}, "data": {"b": 2.10}})
    done = hand_over(api, topic, 0, first, record(5), next_from_seq=6)
    assert done.status == 201
    assert {**done.json, "performance": None} == {
        "topic": topic, "here": "iad", "source": "fra", "read_seq": 6, "count": 2, "skipped": 0, "lost": 0, "head_seq": 2,
        "created": True, "performance": None,
    }  # fmt: skip
    raw = api.diff(topic, include_tags=True).body
    assert b'"data":{"b": 2.1}' in raw or b'"data":{"b":2.1}' in raw
    one, two = held(api, topic)
    assert (one["$node"], one["$tag"]) == ("shop", "paid")
    assert one["meta"] == {"a": 1.5, "_topics_mirror": {"topic": topic, "site": "fra", "seq": 3, "ts": 1003}}
    assert two["meta"] == {"_topics_mirror": {"topic": topic, "site": "fra", "seq": 5, "ts": 1005}}
    assert "$node" not in two
    state = api.get(f"/v0/topics/{topic}/mirror").json
    (site,) = state["sites"]
    assert (state["here"], site["site"], site["read_seq"], site["origin_seq"]) == ("iad", "fra", 6, 5)


@pytest.mark.guarantee("F6")
def test_a_repeated_handover_is_refused_with_the_position(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/topics/{topic}", {"idempotency_window_ms": 0})
    assert hand_over(api, topic, 0, record(1), record(2)).json["count"] == 2
    again = hand_over(api, topic, 0, record(1), record(2))
    assert (again.status, again.code) == (409, "cursor_moved")
    assert again.detail == {"reason": "mirror", "site": "fra", "seq": 2, "from_seq": 0}
    assert hand_over(api, topic, 2, record(3)).json["read_seq"] == 3
    assert data(api, topic) == [1, 2, 3]


def test_of_many_handovers_from_one_position_one_succeeds(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/topics/{topic}")
    found: list[int] = []

    def send(number: int) -> None:
        found.append(hand_over(api, topic, 0, record(number + 1, data=number), next_from_seq=10).status)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == [200] + [409] * 7
    assert len(data(api, topic)) == 1


def test_records_that_were_appended_here_do_not_come_back(api: ApiClient, topic: str) -> None:
    api.append(topic, "mine")
    done = hand_over(api, topic, 0, record(1, meta=stamp(1, "iad", topic)), record(2)).json
    assert (done["count"], done["skipped"]) == (1, 1)
    assert data(api, topic) == ["mine", 2]


@pytest.mark.guarantee("F6")
def test_a_record_that_arrives_on_two_ways_is_appended_once(api: ApiClient, topic: str) -> None:
    """As in a ring: records of `ham` arrive from fra and from ham, and one of the ways is ahead."""
    via_fra = [record(seq, meta=stamp(seq - 10, "ham", topic), data=seq - 10) for seq in (11, 12, 13)]
    assert hand_over(api, topic, 0, *via_fra).json["count"] == 3
    direct = [record(seq) for seq in (2, 3, 4, 5)]
    done = hand_over(api, topic, 0, *direct, source="ham").json
    assert (done["count"], done["skipped"]) == (2, 2)
    late = [record(seq, meta=stamp(seq - 10, "ham", topic), data=seq - 10) for seq in (14, 15, 16)]
    assert hand_over(api, topic, 13, *late).json["count"] == 1
    assert data(api, topic) == [1, 2, 3, 4, 5, 6]
    sites = {each["site"]: each for each in api.get(f"/v0/topics/{topic}/mirror").json["sites"]}
    assert (sites["fra"]["read_seq"], sites["fra"]["origin_seq"]) == (16, 0)
    assert (sites["ham"]["read_seq"], sites["ham"]["origin_seq"]) == (5, 6)


def test_a_stamp_of_another_topic_is_no_origin(api: ApiClient, topic: str) -> None:
    assert hand_over(api, topic, 0, record(1, meta=stamp(9, "iad", "other"))).json["count"] == 1
    (one,) = held(api, topic)
    assert one["meta"]["_topics_mirror"] == {"topic": topic, "site": "fra", "seq": 1, "ts": 1001}


def lost(gap_from: int, gap_to: int, reason: str = "cap") -> dict[str, Any]:
    count = gap_to - gap_from + 1
    return {
        "gap_from": gap_from, "gap_to": gap_to, "reason": reason, "earliest_seq": gap_to + 1, "missed_estimate": count,
        "head_seq": gap_to,
    }  # fmt: skip


def told(api: ApiClient, topic: str) -> list[Any]:
    """Returns what a reader gets: the data of each record, and (reason, gap_from, gap_to) of each tombstone."""
    found: list[Any] = []
    seq = 0
    while True:
        window = api.diff(topic, from_seq=seq).json
        if (gap := window["tombstone"]) is not None:
            found.append((gap["reason"], gap["gap_from"], gap["gap_to"]))
        found += [each["data"] for each in window["records"]]
        seq = window["next_from_seq"]
        if window["caught_up"]:
            return found


def test_losses_are_counted_and_readers_get_tombstones(api: ApiClient, topic: str) -> None:
    done = hand_over(api, topic, 0, record(5), tombstone=lost(1, 4)).json
    assert (done["lost"], done["head_seq"]) == (4, 5)
    assert hand_over(api, topic, 5, record(6)).json["lost"] == 4
    assert hand_over(api, topic, 6, record(10), tombstone=lost(7, 8, "ttl")).json["head_seq"] == 9
    assert told(api, topic) == [("source_trim", 1, 4), 5, 6, ("source_trim", 7, 8), 10]
    (site,) = api.get(f"/v0/topics/{topic}/mirror").json["sites"]
    assert (site["lost"], site["losses"]) == (6, [{"lost_seq": 4, "told_seq": 4}, {"lost_seq": 8, "told_seq": 8}])
    assert site["lost_ts"] is not None
    # A crash at the source took back records that had arrived, and lost none that had not.
    assert hand_over(api, topic, 10, record(11), tombstone=lost(11, 10, "restart")).json["lost"] == 6
    assert told(api, topic)[-2:] == [10, 11]


def test_a_sealed_topic_gets_no_loss(api: ApiClient, topic: str) -> None:
    hand_over(api, topic, 0, record(1), record(2))
    api.put(f"/v0/topics/{topic}", {"sealed": True})
    gap = {"next_from_seq": 7, "tombstone": lost(3, 7)}
    refused = hand_over(api, topic, 2, **gap)
    assert (refused.status, refused.code) == (409, "topic_sealed")
    assert api.get(f"/v0/topics/{topic}").json["head_seq"] == 2
    api.put(f"/v0/topics/{topic}", {"sealed": False})
    assert hand_over(api, topic, 2, **gap).json["head_seq"] == 7


def test_a_tombstone_reaches_streams_without_a_record(server: Instance, topic: str) -> None:
    watching = Api(server.port)
    watching.append(topic, "mine")
    with watching.stream(watching.watch({topic: {}})) as stream:
        stream.until_event("caught-up")
        hand_over(HttpClient(server.port), topic, 0, next_from_seq=7, tombstone=lost(1, 7))
        gap = stream.until_event("tombstone")[-1].data
    assert (gap["reason"], gap["gap_from"], gap["gap_to"]) == ("source_trim", 2, 8)


@pytest.mark.guarantee("F6")
def test_a_loss_is_told_once_on_several_ways_and_not_at_its_site(api: ApiClient, topic: str) -> None:
    """`losses` names the sites whose loss the source has told."""

    def pass_on(from_seq: int, upto: int, source: str, reason: str = "source_trim", **losses: int) -> int:
        passed = [{"site": site, "lost_seq": seq} for site, seq in losses.items()]
        gap = lost(from_seq + 1, upto, reason)
        body = {"source": source, "next_from_seq": upto, "tombstone": gap, "losses": passed}
        return int(hand_over(api, topic, from_seq, **body).json["head_seq"])

    assert pass_on(0, 3, "fra", ham=50) == 3
    assert pass_on(0, 50, "ham", "cap") == 3  # the same loss, from its site
    assert pass_on(0, 9, "ber", ham=50) == 3
    assert pass_on(3, 5, "fra", iad=70) == 3  # this site lost it
    assert pass_on(5, 7, "fra", ham=60, iad=70) == 5
    assert pass_on(50, 55, "ham", "ttl") == 5
    assert pass_on(7, 8, "fra") == 6  # a router brought the loss to fra
    assert pass_on(8, 9, "fra", "mixed", ham=60) == 7
    assert told(api, topic) == [("source_trim", 1, 7)]
    sites = {each["site"]: each for each in api.get(f"/v0/topics/{topic}/mirror").json["sites"]}
    assert {site: (each["lost"], [loss["lost_seq"] for loss in each["losses"]]) for site, each in sites.items()} == {
        "fra": (2, [8, 9]), "ham": (5, [50, 60]), "ber": (0, []),
    }  # fmt: skip


def test_a_loss_before_records_that_arrived_on_another_way_is_not_told(api: ApiClient, topic: str) -> None:
    hand_over(api, topic, 0, record(9, meta=stamp(30, "ham", topic)))
    assert hand_over(api, topic, 0, source="ham", next_from_seq=20, tombstone=lost(1, 20)).json["head_seq"] == 1
    assert told(api, topic) == [9]


def test_the_position_moves_without_records(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/topics/{topic}")
    done = hand_over(api, topic, 0, next_from_seq=40)
    assert (done.status, done.json["count"], done.json["head_seq"]) == (200, 0, 0)
    assert hand_over(api, topic, 40, record(41)).json["count"] == 1


def test_sites_keep_their_names(api: ApiClient, topic: str) -> None:
    hand_over(api, topic, 0, record(1))
    other = hand_over(api, topic, 1, record(2), here="ham")
    assert (other.status, other.code, other.detail) == (409, "topic_exists_incompatible", {"site": "iad"})
    # As if both URLs led to one server: the other direction names this topic fra.
    assert hand_over(api, topic, 0, record(2), here="fra", source="iad").status == 409
    assert hand_over(api, topic, 0, record(2), here="iad", source="iad").status == 400


def test_the_largest_meta_has_room_for_the_stamp(api: ApiClient, topic: str) -> None:
    most_bytes = {"a": "x" * (META_LIMIT - len('{"a":""}'))}
    most_keys = {f"k{n}": n for n in range(KEYS_LIMIT)}
    assert hand_over(api, topic, 0, record(1, meta=most_bytes), record(2, meta=most_keys)).status == 201
    assert [len(each["meta"]) for each in held(api, topic)] == [2, KEYS_LIMIT + 1]


@pytest.mark.parametrize("meta", ["null", "{}", " { } ", '{"b":1,"a":2e2}', '{ "x" : {} }'])
def test_the_bytes_of_meta_stay(api: ApiClient, topic: str, meta: str) -> None:
    topic = f"{topic}-{abs(hash(meta)):x}"
    body = (
        '{"here": "iad", "source": "fra", "from_seq": 0, "next_from_seq": 1, "records": '
        f'[{{"$seq": 1, "$ts": 1, "data": [1.0, 2e5], "meta": {meta}}}]}}'
    )
    assert api.post(f"/v0/topics/{topic}/mirror", body.encode()).status == 201
    raw = api.diff(topic).body
    before = "" if meta == "null" else meta.strip()[1:-1].strip()
    comma = "," if before else ""
    expected = f'{comma}"_topics_mirror":{{"topic":"{topic}","site":"fra","seq":1,"ts":1}}}}'
    assert before.encode() in raw
    assert expected.encode() in raw
    assert b"[1.0, 2e5]" in raw


def test_appends_cannot_write_the_stamp(api: ApiClient, topic: str) -> None:
    for key in ("_topics_mirror", "\\u005ftopics_mirror"):
        body = f'{{"records": [{{"data": 1, "meta": {{"{key}": 1}}}}]}}'.encode()
        refused = api.post(f"/v0/topics/{topic}", body)
        assert (refused.status, refused.code) == (400, "invalid_request")
        assert "_topics_mirror" in refused.json["error"]["message"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"here": "a b"},
        {"source": ""},
        {"next_from_seq": 0},
        {"records": [record(2), record(1)]},
        {"records": [record(3)]},
        {"tombstone": lost(1, 3)},
        {"tombstone": lost(1, 1)},
        {"losses": [{"site": "a b", "lost_seq": 1}]},
        {"losses": [{"site": "ham", "lost_seq": -1}]},
        {"config": {"sealed": True}},
        {"config": {"type": "queue"}},
    ],
)
def test_a_wrong_handover_changes_nothing(api: ApiClient, topic: str, wrong: dict[str, Any]) -> None:
    topic = f"{topic}-{abs(hash(json.dumps(wrong))):x}"
    body = {"here": "iad", "source": "fra", "from_seq": 0, "next_from_seq": 2, "records": [record(1)], **wrong}
    assert api.post(f"/v0/topics/{topic}/mirror", body).status == 400
    assert api.get(f"/v0/topics/{topic}").status == 404


def test_a_topic_takes_its_config_from_the_first_handover(api: ApiClient, topic: str) -> None:
    assert hand_over(api, topic, 0, record(1), create=False).status == 404
    assert hand_over(api, topic, 0, record(1), config={"cap_records": 1, "durability": "fsync"}).status == 201
    assert hand_over(api, topic, 1, record(2), config={"cap_records": 9}).status == 200
    config = api.get(f"/v0/topics/{topic}").json["config"]
    assert (config["cap_records"], config["durability"]) == (1, "fsync")
    assert data(api, topic) == [2]


def test_sealed_and_full_topics_and_queues_refuse(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/topics/{topic}", {"cap_records": 1, "discard": "reject"})
    assert hand_over(api, topic, 0, record(1)).status == 200
    full = hand_over(api, topic, 1, record(2))
    assert (full.status, full.code) == (422, "topic_full")
    api.put(f"/v0/topics/{topic}", {"sealed": True})
    refused = hand_over(api, topic, 1, record(2))
    assert (refused.status, refused.code, refused.headers["topics-sealed"]) == (409, "topic_sealed", "1")
    api.put(f"/v0/topics/{topic}-q", {"type": "queue"})
    assert hand_over(api, f"{topic}-q", 0, record(1)).code == "topic_exists_incompatible"
    assert api.get(f"/v0/topics/{topic}/mirror").json["sites"][0]["read_seq"] == 1


def test_a_new_topic_of_the_name_starts_again(api: ApiClient, topic: str) -> None:
    hand_over(api, topic, 0, record(1), record(2))
    assert api.delete(f"/v0/topics/{topic}").status == 200
    assert hand_over(api, topic, 2, record(3)).detail == {"reason": "mirror", "site": "fra", "seq": 0, "from_seq": 2}
    assert hand_over(api, topic, 0, record(1), record(2), record(3)).json["head_seq"] == 5


def test_a_stream_sees_a_handover(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/topics/{topic}")
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(api.diff(topic, wait_ms=30_000).json["records"]))
    waiting.start()
    hand_over(api, topic, 0, record(1))
    waiting.join(DEADLINE)
    assert [each["data"] for each in found[0]] == [1]
