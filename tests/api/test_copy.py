"""Copies into a sealed topic: records of another server, with the seqs that they have there."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection

from base.depth import OLD_DEPTH
from tests.api.clients import ApiClient, Reply
from tests.api.test_sealed import HEADER, seal
from tests.instances import until
from topics.upkeep import recovery


def record(seq: int, ts: int | None = None, **more: Any) -> dict[str, Any]:
    return {"$seq": seq, "$ts": 1000 + seq if ts is None else ts, "data": {"n": seq}, **more}


def copy(live: ApiClient, topic: str, *records: dict[str, Any], **more: Any) -> Reply:
    return live.post(f"/v0/topics/{topic}", {"copy": True, "records": list(records), **more})


@pytest.fixture
def topic(api: ApiClient, name: str) -> str:
    """An empty sealed topic."""
    seal(api, name)
    return name


def state(live: ApiClient, topic: str) -> tuple[int, int, int, int]:
    shown = live.get(f"/v0/topics/{topic}").json
    return shown["earliest_seq"], shown["head_seq"], shown["count"], shown["bytes"]


def seqs(live: ApiClient, topic: str, from_seq: int = 0) -> list[int]:
    return [each["$seq"] for each in live.diff(topic, from_seq=from_seq).json["records"]]


def test_it_works(api: ApiClient, topic: str) -> None:
    sent = [
        record(1, 5, **{"$node": "n", "$tag": "t", "meta": {"k": 1}}),
        record(2, 5, **{"$topic": "of another server"}),
        record(5, 7),
    ]
    done = copy(api, topic, *sent)
    answer = done.json
    assert (done.status, done.headers[HEADER]) == (200, "1")
    assert set(answer.pop("performance")) == {"server_total_ms", "wal_append_ms", "fsync_ms"}
    assert answer == {
        "topic": topic,
        "first_seq": 1,
        "last_seq": 5,
        "seqs": [1, 2, 5],
        "head_seq": 5,
        "count": 3,
        "created": False,
        "deduped": False,
        "copied": 3,
    }
    window = api.diff(topic, include_tags=True).json
    assert window["records"] == [sent[0], record(2, 5), sent[2]]
    assert (window["tombstone"], window["caught_up"]) == (None, True)
    assert state(api, topic)[:3] == (1, 5, 3)
    assert api.get(f"/v0/topics/{topic}/records/3").status == 404


def test_what_a_diff_shows_can_be_sent_as_it_is(api: ApiClient, name: str) -> None:
    records = [
        {"data": 1, "tag": "a", "node": "n", "meta": {"k": [1]}},
        {"data": {"text": "\u2028"}},
        {"data": None, "meta": {}},
        {"data": 12345678901234567890123},
    ]
    api.post(f"/v0/topics/{name}", {"records": records})
    shown = api.diff(name, include_tags=True).json["records"]
    seal(api, f"{name}-2")
    assert copy(api, f"{name}-2", *shown).json["copied"] == 4
    assert api.diff(f"{name}-2", include_tags=True).json["records"] == shown
    assert state(api, f"{name}-2") == state(api, name)


@pytest.mark.parametrize("place", ["data", "meta"])
def test_a_copy_has_the_levels_of_older_releases_and_no_more(api: ApiClient, topic: str, place: str) -> None:
    def nested(levels: int) -> bytes:
        json = b"[" * (levels - 1) + b"]" * (levels - 1)
        return b'{"data":1,"%s":{"a":%s}}' % (place.encode(), json)

    def sent(seq: int, levels: int) -> Reply:
        one = b'{"$seq":%d,"$ts":1,%s' % (seq, nested(levels)[1:])
        return api.post(f"/v0/topics/{topic}", b'{"copy":true,"records":[%s]}' % one)

    assert sent(1, OLD_DEPTH).status == 200
    refused = sent(2, OLD_DEPTH + 1)
    assert (refused.status, refused.detail["max_depth"]) == (400, OLD_DEPTH)
    assert state(api, topic)[1] == 1


def test_a_stamp_of_a_router_stays_in_meta(api: ApiClient, name: str) -> None:
    api.put(f"/v0/routers/{name}-r", {"source": name, "dest": f"{name}-d", "guarantee": "exactly_once"})
    keys = {f"k{number}": number for number in range(64)}
    api.post(f"/v0/topics/{name}", {"records": [{"data": 1, "meta": keys}, {"data": 2}]})
    shown = api.diff(f"{name}-d").json["records"]
    assert [len(each["meta"]) for each in shown] == [65, 1]
    seal(api, f"{name}-2")
    assert copy(api, f"{name}-2", *shown).json["copied"] == 2
    assert api.diff(f"{name}-2").json["records"] == shown


@pytest.mark.guarantee("W10")
def test_a_copy_that_is_sent_again_changes_nothing(api: ApiClient, topic: str) -> None:
    copy(api, topic, record(1), record(3))
    before = state(api, topic)
    again = copy(api, topic, record(1), record(2), record(3))
    assert (again.json["copied"], again.json["seqs"]) == (0, [])
    assert (again.json["first_seq"], again.json["last_seq"], again.json["head_seq"]) == (4, 3, 3)
    assert state(api, topic) == before
    more = copy(api, topic, record(3), record(4), record(6))
    assert more.json["seqs"] == [4, 6]
    assert seqs(api, topic) == [1, 3, 4, 6]


def test_a_copy_that_begins_late_has_no_hole(api: ApiClient, topic: str) -> None:
    copy(api, topic, record(1_000_000), record(1_000_001))
    window = api.diff(topic).json
    assert ([each["$seq"] for each in window["records"]], window["tombstone"]) == ([1_000_000, 1_000_001], None)
    assert state(api, topic)[:3] == (1_000_000, 1_000_001, 2)
    seal(api, topic, False)
    assert api.append(topic, 1).json["seqs"] == [1_000_002]


def test_the_head_moves_without_records(api: ApiClient, topic: str) -> None:
    assert copy(api, topic, head_seq=10).json["head_seq"] == 10
    assert state(api, topic) == (11, 10, 0, 0)
    assert copy(api, topic, record(12), head_seq=20).json["head_seq"] == 20
    assert copy(api, topic, head_seq=15).json["head_seq"] == 20  # as sent again
    assert state(api, topic)[:3] == (12, 20, 1)
    window = api.diff(topic, from_seq=12).json
    assert (window["records"], window["next_from_seq"], window["tombstone"]) == ([], 20, None)
    assert copy(api, topic, record(25), head_seq=25).json["seqs"] == [25]
    assert seqs(api, topic) == [12, 25]
    seal(api, topic, False)
    assert api.append(topic, 1).json["seqs"] == [26]
    assert seqs(api, topic) == [12, 25, 26]


@pytest.mark.parametrize(("config", "reason"), [({}, "cap"), ({"cap_records": 9}, "cap"), ({"ttl_ms": 2**50}, "ttl")])
def test_what_the_source_lost_is_told_here_too(api: ApiClient, topic: str, config: dict[str, Any], reason: str) -> None:
    api.put(f"/v0/topics/{topic}", config)
    assert copy(api, topic, record(21), record(23), earliest_seq=21).status == 200
    window = api.diff(topic).json
    tombstone = window["tombstone"]
    assert (tombstone["gap_from"], tombstone["gap_to"], tombstone["reason"]) == (1, 20, reason)
    assert [each["$seq"] for each in window["records"]] == [21, 23]
    assert api.diff(topic, from_seq=20).json["tombstone"] is None
    # The source goes on losing: what was copied before is lost, too.
    assert copy(api, topic, record(24), earliest_seq=22).status == 200
    assert (seqs(api, topic), state(api, topic)[2]) == ([23, 24], 2)
    assert api.diff(topic, from_seq=20).json["tombstone"]["reason"] == reason
    assert api.diff(topic, from_seq=22).json["tombstone"] is None
    # All of it.
    assert copy(api, topic, head_seq=30, earliest_seq=31).status == 200
    assert state(api, topic) == (31, 30, 0, 0)
    assert api.diff(topic, from_seq=29).json["tombstone"]["gap_to"] == 30
    assert api.diff(topic, from_seq=30).json["tombstone"] is None
    again = copy(api, topic, earliest_seq=25)
    assert (again.status, state(api, topic)) == (200, (31, 30, 0, 0))


def mirrored(live: ApiClient, source: str, dest: str, limit: int) -> None:
    """Send each page of the source as it is shown."""
    seal(live, dest)
    from_seq, caught_up = 0, False
    while not caught_up:
        page = live.diff(source, from_seq=from_seq, limit=limit, include_tags=True).json
        sent = {"head_seq": page["next_from_seq"], "tombstone": page["tombstone"]}
        for _ in range(2):
            done = copy(live, dest, *page["records"], **sent)
            assert (done.status, done.json["head_seq"]) == (200, page["next_from_seq"]), done.json
        from_seq, caught_up = page["next_from_seq"], page["caught_up"]


def reads(live: ApiClient, topic: str) -> list[Any]:
    """What a reader is shown and told at each seq."""
    head_seq = live.get(f"/v0/topics/{topic}").json["head_seq"]
    windows = [live.diff(topic, from_seq=from_seq, limit=2).json for from_seq in range(head_seq + 1)]
    return [(each["records"], each["next_from_seq"], each["tombstone"]) for each in windows]


@pytest.mark.guarantee("W10")
@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("config", [{"cap_records": 3}, {"ttl_ms": 1}])
def test_a_tombstone_of_the_source_is_the_same_here(
    api: ApiClient, name: str, config: dict[str, Any], limit: int
) -> None:
    api.append(name, *range(6))
    api.put(f"/v0/topics/{name}", config)
    until(lambda: api.get(f"/v0/topics/{name}").json["count"] < 6, "the loss")
    mirrored(api, name, f"{name}-2", limit)
    assert reads(api, f"{name}-2") == reads(api, name)


@pytest.mark.guarantee("W10")
@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("first", [0, 2], ids=["at the front", "between records"])
def test_a_loss_of_a_router_is_the_same_here(views: ApiClient, name: str, first: int, limit: int) -> None:
    source, dest, router = name, f"{name}-d", f"/v0/routers/{name}-r"
    views.put(router, {"source": source, "dest": dest})
    for number in range(first):
        views.append(source, number)
    assert len(seqs(views, dest)) == first
    views.put(router, {"source": source, "dest": dest, "paused": True})
    views.put(f"/v0/topics/{source}", {"cap_records": 2})
    views.append(source, *range(6))
    views.put(router, {"source": source, "dest": dest, "paused": False})
    mirrored(views, dest, f"{name}-2", limit)
    assert "source_trim" in str(reads(views, f"{name}-2"))
    assert reads(views, f"{name}-2") == reads(views, dest)


@pytest.mark.guarantee("W10")
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_loss_by_a_crash_is_the_same_here(views: ApiClient, name: str, limit: int) -> None:
    """Records 3 and 4 are no more, and 5 to 9 were reserved."""
    views.append(name, 1, 2)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE topics_topichead SET reserved_seq = 9 WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %s)",
            [name],
        )
        cursor.execute("DELETE FROM topics_survived")
    recovery.recover(connection)
    views.append(name, 10, 11)
    mirrored(views, name, f"{name}-2", limit)
    assert [each[2]["lost_from"] for each in reads(views, f"{name}-2")[2:9]] == [3] * 7
    assert reads(views, f"{name}-2") == reads(views, name)


def test_a_tombstone_that_makes_no_sense_is_refused(api: ApiClient, topic: str) -> None:
    tombstone = {"gap_to": 4, "reason": "cap", "earliest_seq": 5}
    for body in (
        {"records": [record(5)], "earliest_seq": 5, "tombstone": tombstone},
        {"records": [record(4)], "tombstone": tombstone},
        {"records": [record(5)], "tombstone": {**tombstone, "reason": "none"}},
        {"records": [record(5)], "tombstone": {"gap_to": 4}},
        {"records": [record(5)], "tombstone": {**tombstone, "more": 1}},
    ):
        refused = api.post(f"/v0/topics/{topic}", {"copy": True, **body})
        assert (refused.status, refused.code) == (400, "invalid_request"), body
    assert state(api, topic) == (1, 0, 0, 0)


def test_it_evicts_where_a_cap_says_so_and_is_refused_where_it_may_not(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"sealed": True, "cap_records": 2})
    copy(api, name, record(1), record(2), record(5))
    assert seqs(api, name) == [2, 5]
    api.put(f"/v0/topics/{name}", {"discard": "reject"})
    refused = copy(api, name, record(5), record(6))
    assert (refused.status, refused.code, refused.headers[HEADER]) == (422, "topic_full", "1")
    assert copy(api, name, record(5), head_seq=9).json["head_seq"] == 9  # nothing that needs room


@pytest.mark.parametrize("durability", ["fsync", "disk", "memory", "ephemeral"])
def test_every_durability(api: ApiClient, name: str, durability: str) -> None:
    api.put(f"/v0/topics/{name}", {"sealed": True, "durability": durability})
    copy(api, name, record(3), record(4), record(7), head_seq=8)
    assert (seqs(api, name), state(api, name)[:3]) == ([3, 4, 7], (3, 8, 3))
    seal(api, name, False)
    assert api.append(name, 1).json["seqs"] == [9]


def test_routers_bring_what_was_copied(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/routers/{topic}-r", {"source": topic, "dest": f"{topic}-d"})
    copy(api, topic, record(3), record(4), record(7), earliest_seq=3, head_seq=9)
    window = api.diff(f"{topic}-d").json
    assert [each["data"]["n"] for each in window["records"]] == [3, 4, 7]
    assert window["tombstone"]["reason"] == "source_trim"


def test_from_ts_finds_what_was_copied(api: ApiClient, topic: str) -> None:
    copy(api, topic, record(3, 10), record(5, 20), record(9, 20), record(11, 30), head_seq=20)
    for ts, found in ((0, [3, 5, 9, 11]), (11, [5, 9, 11]), (20, [5, 9, 11]), (21, [11]), (31, [])):
        assert [each["$seq"] for each in api.diff(topic, from_ts=ts).json["records"]] == found, ts


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"records": []}, "head_seq"),
    ({}, "records"),
    ({"records": [record(2), record(2)]}, "ascend"),
    ({"records": [record(2), record(1)]}, "ascend"),
    ({"records": [record(0)]}, "$seq"),
    ({"records": [record(2**62 + 1)]}, "$seq"),
    ({"records": [record(1, -1)]}, "$ts"),
    ({"records": [record(1, 9), record(2, 8)]}, "descend"),
    ({"records": [record(1, 2**61)]}, "clock"),
    ({"records": [{"$seq": 1, "data": 1}]}, "$ts"),
    ({"records": [{"$ts": 1, "data": 1}]}, "$seq"),
    ({"records": [{"$seq": 1, "$ts": 1}]}, "data"),
    ({"records": [record(1, tag="t")]}, "'tag'"),
    ({"records": [record(1, **{"$tag": "x" * 257})]}, "tag"),
    ({"records": [record(1, **{"$node": "x" * 129})]}, "node"),
    ({"records": [record(1, **{"$tag": "a\0b"})]}, "tag"),
    ({"records": [record(1, **{"$node": "a\0b"})]}, "node"),
    ({"records": [record(1, meta=[])]}, "meta"),
    ({"records": [record(3)], "head_seq": 2}, "head_seq"),
    ({"records": [record(3)], "head_seq": -1}, "head_seq"),
    ({"records": [record(3)], "earliest_seq": 5}, "earliest_seq"),
    ({"records": [record(3)], "idempotency_key": "k"}, "idempotency_key"),
    ({"records": [record(3)], "expected_head": 0}, "expected_head"),
    ({"records": [record(3)], "node": "n"}, "node"),
    ({"records": [record(3)], "create": False}, "create"),
    ({"records": [record(3)], "config": {}}, "config"),
    ({"records": [record(3)], "return_seqs": False}, "return_seqs"),
    ({"records": [record(3)], "disable_backpressure": True}, "disable_backpressure"),
]


@pytest.mark.parametrize(
    ("body", "named"), REFUSED, ids=[f"{number}-{named}" for number, (_, named) in enumerate(REFUSED)]
)
def test_a_bad_copy_is_refused(api: ApiClient, topic: str, body: dict[str, Any], named: str) -> None:
    refused = api.post(f"/v0/topics/{topic}", {"copy": True, **body})
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert named in refused.json["error"]["message"]
    assert state(api, topic) == (1, 0, 0, 0)


def test_a_time_below_the_last_one_is_refused(api: ApiClient, topic: str) -> None:
    copy(api, topic, record(1, 50))
    refused = copy(api, topic, record(1, 1), record(2, 49))
    assert (refused.status, refused.code, refused.headers[HEADER]) == (400, "invalid_request", "1")
    assert "descend" in refused.json["error"]["message"]
    assert copy(api, topic, record(2, 50)).status == 200
    soon = int(time.time() * 1000) + 5_000
    assert copy(api, topic, record(3, soon)).status == 200


def test_other_ways_to_say_what_makes_no_sense(api: ApiClient, topic: str) -> None:
    path = f"/v0/topics/{topic}"
    body = {"copy": True, "records": [record(1)]}
    assert api.post(f"{path}?return_seqs=false", body).status == 400
    escaped = api.call("POST", path, b'{"c\\u006fpy": true, "records": [{"data": 1}]}')
    assert (escaped.status, escaped.detail) == (400, {"field": "copy"})
    assert api.post(path, {"copy": "yes", "records": [{"data": 1}]}).status == 400
    assert state(api, topic) == (1, 0, 0, 0)


def test_a_copy_may_carry_the_key_that_a_gateway_gives_every_append(api: ApiClient, topic: str) -> None:
    body = {"copy": True, "records": [record(1)]}
    for _ in range(2):
        assert api.post(f"/v0/topics/{topic}", body, idempotency_key="k").status == 200
    assert (
        api.post(f"/v0/topics/{topic}", {"copy": True, "records": [record(2)]}, idempotency_key="k").json["copied"] == 1
    )


def test_an_append_may_say_that_it_is_no_copy(api: ApiClient, name: str) -> None:
    assert api.append(name, {"copy": True}, copy=False).json["seqs"] == [1]
    assert "copied" not in api.append(name, {"copy": True}).json
    assert api.post(f"/v0/topics/{name}", {"records": [record(1)]}).status == 400


def test_only_a_sealed_topic_takes_one(api: ApiClient, name: str) -> None:
    absent = copy(api, name, record(1))
    assert (absent.status, absent.code) == (404, "topic_not_found")
    api.put(f"/v0/topics/{name}")
    refused = copy(api, name, record(1))
    assert (refused.status, refused.code, HEADER in refused.headers) == (409, "topic_not_sealed", False)
    seal(api, name)
    copy(api, name, record(1))
    seal(api, name, False)
    assert copy(api, name, record(2)).code == "topic_not_sealed"
    assert api.get(f"/v0/topics/{name}").json["head_seq"] == 1


def test_it_needs_a_key_that_may_write_and_administer(views: ApiClient, keys: Any, name: str) -> None:
    keys("writer:write+delete+read:,admin:write+delete+admin:")
    views.put(f"/v0/topics/{name}", {"sealed": True}, authorization="Bearer admin")
    body = {"copy": True, "records": [record(1), record(2)]}
    for path, asked in ((f"/v0/topics/{name}", body), (f"/v0/topics/{name}/delete", {"copy": True, "seqs": [1]})):
        refused = views.post(path, asked, authorization="Bearer writer")
        assert (refused.status, refused.detail) == (403, {"scope": "admin"})
        assert views.post(path, asked, authorization="Bearer admin").status == 200


# -- Deletes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [{"before_seq": 3}, {"match": "t"}, {"match": ["tag", "Glob", "t*"]}, {"seqs": [2, 1]}], ids=str
)
def test_a_delete_of_a_copy_works_on_a_sealed_topic_only(api: ApiClient, topic: str, body: dict[str, Any]) -> None:
    copy(api, topic, *(record(seq, **({"$tag": "t"} if seq < 3 else {})) for seq in range(1, 6)))
    path = f"/v0/topics/{topic}/delete"
    assert api.post(path, body).code == "topic_sealed"
    done = api.post(path, {**body, "copy": True})
    assert (done.status, done.json["deleted"], done.headers[HEADER]) == (200, 2, "1")
    assert seqs(api, topic) == [3, 4, 5]
    seal(api, topic, False)
    refused = api.post(path, {**body, "copy": True})
    assert (refused.status, refused.code) == (409, "topic_not_sealed")
    assert api.post(path, body).json["deleted"] == 0
