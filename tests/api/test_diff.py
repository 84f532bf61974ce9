"""POST /v0/topics/:topic/diff."""

import json
import threading
import time
from typing import Any

import pytest

from tests.api.clients import ApiClient
from tests.deadlines import DEADLINE


def seqs(answer: Any) -> list[int]:
    return [record["$seq"] for record in answer["records"]]


def test_it_works(live: ApiClient, name: str) -> None:
    live.append(name, "a", "b")
    reply = live.diff(name)
    assert reply.status == 200
    answer = reply.json
    assert answer.pop("performance").keys() == {"server_total_ms", "records_scanned"}
    first, second = answer.pop("records")
    assert (first["$seq"], first["data"], second["$seq"], second["data"]) == (1, "a", 2, "b")
    assert abs(first["$ts"] - time.time() * 1000) < 60_000
    assert set(first) == {"$seq", "$ts", "data"}
    expected = {"topic": name, "next_from_seq": 2, "head_seq": 2, "earliest_seq": 1, "caught_up": True}
    assert answer == {**expected, "tombstone": None, "lag": 0}


def test_an_empty_topic_is_caught_up(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}")
    answer = live.diff(name).json
    assert (answer["records"], answer["next_from_seq"], answer["caught_up"], answer["lag"]) == ([], 0, True, 0)
    assert (answer["head_seq"], answer["earliest_seq"]) == (0, 1)


def test_no_body_reads_from_the_start(live: ApiClient, name: str) -> None:
    live.append(name, 1)
    assert seqs(live.post(f"/v0/topics/{name}/diff", b"").json) == [1]
    assert seqs(live.call("POST", f"/v0/topics/{name}/diff").json) == [1]


def test_from_seq_is_exclusive_and_limit_bounds_the_window(live: ApiClient, name: str) -> None:
    live.append(name, *range(10))
    answer = live.diff(name, from_seq=3, limit=4).json
    assert seqs(answer) == [4, 5, 6, 7]
    assert (answer["next_from_seq"], answer["caught_up"], answer["lag"]) == (7, False, 3)
    assert live.diff(name, from_seq=10).json["records"] == []


def test_what_is_clamped_is_told(api: ApiClient, name: str) -> None:
    api.append(name, 1)
    assert api.diff(name, limit=5000, wait_ms=10**9).json["clamped"] == {"limit": 1000, "wait_ms": 30_000}
    assert api.get(f"/v0/topics/{name}/records?wait_ms=30001").json["clamped"] == {"wait_ms": 30_000}
    for fields in ({}, {"limit": 1000}, {"limit": 1, "wait_ms": 30_000}):
        assert "clamped" not in api.diff(name, **fields).json
    for page in ("/v0/topics", "/v0/routers", f"/v0/topics/{name}/cursors"):
        assert api.get(f"{page}?page_size=1001").json["clamped"] == {"page_size": 1000}
        assert "clamped" not in api.get(f"{page}?page_size=1000").json
    watched = api.post("/v0/watch", {"topics": {name: {}}, "limit": 1001, "max_batch_bytes": 2**40})
    assert watched.json["clamped"] == {"limit": 1000, "max_batch_bytes": 262_144}
    assert "clamped" not in api.post("/v0/watch", {"topics": {name: {}}}).json


def test_a_limit_over_1000_is_1000(live: ApiClient, name: str) -> None:
    live.append(name, *range(1001))
    assert len(live.diff(name, limit=5000).json["records"]) == 1000
    assert len(live.diff(name).json["records"]) == 256


def test_own_records_are_left_out_of_the_window_silently(live: ApiClient, name: str) -> None:
    for node in ("a", "b", "a", "A"):
        live.append(name, 1, node=node)
    live.append(name, 1)
    answer = live.diff(name, node="a", limit=3).json
    assert (seqs(answer), answer["next_from_seq"], answer["tombstone"]) == ([2], 3, None)
    assert seqs(live.diff(name, node=["a", "b"]).json) == [4, 5]
    assert seqs(live.diff(name, node=[]).json) == [1, 2, 3, 4, 5]
    all_own = live.diff(name, node="a", limit=1).json
    assert (all_own["records"], all_own["next_from_seq"], all_own["caught_up"]) == ([], 1, False)


def test_a_topic_may_want_echoes(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"dedupe_node": False})
    live.append(name, 1, node="a")
    assert seqs(live.diff(name, node="a").json) == [1]


def test_match_leaves_others_out_silently(live: ApiClient, name: str) -> None:
    tags = ["x", "xy", "y", "x*", None]
    live.post(f"/v0/topics/{name}", {"records": [{"data": 1, "tag": tag} for tag in tags]})
    for match, expected in (("x", [1]), (["tag", "Eq", "x"], [1]), (["tag", "Glob", "x*"], [1, 2, 4])):
        answer = live.diff(name, match=match).json
        assert (seqs(answer), answer["next_from_seq"]) == (expected, 5)
    assert seqs(live.diff(name, match=["tag", "Glob", "*"]).json) == [1, 2, 3, 4]
    assert seqs(live.diff(name, match="x*").json) == [4]


@pytest.mark.parametrize("match", ["a", ["tag", "Eq", "a"], ["tag", "Glob", "a*"]])
def test_a_window_of_matches_counts_matches(live: ApiClient, name: str, match: Any) -> None:
    tags = ["a", "b", None, "a", "b", "a", "b"]
    live.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": tag} for n, tag in enumerate(tags)]})
    wanted = {"match": match, "limit": 2, "window": "matches"}
    first, second = (live.diff(name, from_seq=seq, **wanted).json for seq in (0, 4))
    assert (seqs(first), first["next_from_seq"], first["caught_up"], first["lag"]) == ([1, 4], 4, False, 3)
    assert (seqs(second), second["next_from_seq"], second["caught_up"], second["lag"]) == ([6], 7, True, 0)
    assert "scanned_to" not in first | second
    by_seqs = live.diff(name, match=match, limit=2).json
    assert (seqs(by_seqs), by_seqs["next_from_seq"]) == ([1], 2)


def test_a_window_of_matches_leaves_out_own_records(live: ApiClient, name: str) -> None:
    records = [{"data": n, "node": "ab"[n % 2], "tag": "t"} for n in range(6)]
    live.post(f"/v0/topics/{name}", {"records": records})
    for match in (None, "t"):
        answer = live.diff(name, node="a", match=match, limit=2, window="matches").json
        assert (seqs(answer), answer["next_from_seq"]) == ([2, 4], 4)


def test_a_call_that_examined_much_says_how_far_it_came(live: ApiClient, name: str) -> None:
    records = [{"data": n, "node": "a"} for n in range(5_000)]
    live.post(f"/v0/topics/{name}", {"records": records, "return_seqs": False})
    live.append(name, "last", node="b")
    answer = live.diff(name, node="a", window="matches").json
    assert (answer["records"], answer["next_from_seq"], answer["scanned_to"]) == ([], 5_000, 5_000)
    assert (answer["caught_up"], answer["performance"]["records_scanned"]) == (False, 5_000)
    rest = live.diff(name, node="a", window="matches", from_seq=5_000).json
    assert (seqs(rest), "scanned_to" in rest) == ([5_001], False)
    back = live.diff(name, node=["a", "b"], order="desc").json
    assert (back["next_from_seq"], back["scanned_to"], back["caught_up"]) == (2, 2, False)


def test_pages_in_descending_order_lead_to_the_earliest_record(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"cap_records": 7})
    live.append(name, *range(10))
    pages, seq, caught_up = [], 0, False
    while not caught_up:
        answer = live.diff(name, order="desc", limit=3, from_seq=seq).json
        pages.append((seqs(answer), answer["lag"]))
        assert answer["tombstone"] is None
        seq, caught_up = answer["next_from_seq"], answer["caught_up"]
    assert pages == [([10, 9, 8], 4), ([7, 6, 5], 1), ([4], 0)]
    assert (seqs(live.diff(name, order="desc", from_seq=4).json), seq) == ([], 4)


def test_the_last_records(live: ApiClient, name: str) -> None:
    live.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": "ab"[n % 2]} for n in range(10)]})
    last = live.diff(name, tail=3).json
    assert (seqs(last), last["next_from_seq"], last["caught_up"], last["lag"]) == ([8, 9, 10], 10, True, 0)
    assert seqs(live.diff(name, tail=2, match="a").json) == [7, 9]
    assert seqs(live.diff(name, tail=50).json) == list(range(1, 11))
    assert live.diff(name, tail=1_001).json["clamped"] == {"tail": 1_000}
    assert seqs(live.get(f"/v0/topics/{name}/records?tail=2").json) == [9, 10]
    assert seqs(live.get(f"/v0/topics/{name}/records?order=desc&limit=2&match=b").json) == [10, 8]


def test_the_last_records_of_an_empty_topic(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}")
    for wanted in {"tail": 3}, {"order": "desc"}:
        answer = live.diff(name, **wanted).json
        assert (answer["records"], answer["caught_up"], answer["lag"]) == ([], True, 0)


def test_tags_and_meta_are_shown_as_asked(live: ApiClient, name: str) -> None:
    live.post(f"/v0/topics/{name}", {"records": [{"data": 1, "tag": "t", "meta": {"m": 1}}]})
    shown = [set(live.diff(name, **asked).json["records"][0]) - {"$seq", "$ts", "data"} for asked in SHOWN]
    assert shown == [{"meta"}, {"$tag", "meta"}, set(), {"$tag"}]


SHOWN: list[dict[str, bool]] = [
    {},
    {"include_tags": True},
    {"include_meta": False},
    {"include_tags": True, "include_meta": False},
]


def test_a_read_stays_under_the_byte_budget_and_always_moves(live: ApiClient, name: str) -> None:
    half = "x" * 600_000
    live.append(name, half, half, "y" * (1024 * 1024 - 2), 1)
    position, sizes = 0, []
    while True:
        answer = live.diff(name, from_seq=position).json
        sizes.append(len(answer["records"]))
        position = answer["next_from_seq"]
        if answer["caught_up"]:
            break
    assert (sum(sizes), position) == (4, 4)
    assert sizes[0] == 1


@pytest.mark.guarantee("R1")
def test_what_a_cap_took_is_told(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"cap_records": 2})
    live.append(name, *range(5))
    answer = live.diff(name, from_seq=1).json
    lost = {"gap_from": 2, "gap_to": 3, "reason": "cap", "missed_estimate": 2, "earliest_seq": 4, "head_seq": 5}
    assert answer["tombstone"] == lost
    assert seqs(answer) == [4, 5]
    assert live.diff(name, from_seq=3).json["tombstone"] is None


@pytest.mark.guarantee("R1")
def test_what_is_over_its_time_is_told_and_not_shown(live: ApiClient, name: str) -> None:
    live.append(name, 1, 2)
    live.put(f"/v0/topics/{name}", {"ttl_ms": 1})
    time.sleep(0.01)  # over the ttl by any clock
    answer = live.diff(name).json
    assert (answer["records"], answer["earliest_seq"], answer["caught_up"]) == ([], 3, True)
    assert answer["tombstone"] == {
        "gap_from": 1,
        "gap_to": 2,
        "reason": "ttl",
        "missed_estimate": 2,
        "earliest_seq": 3,
        "head_seq": 2,
    }


@pytest.mark.guarantee("W5")
@pytest.mark.parametrize("seq", [0, 1, 3])
def test_a_cursor_of_a_topic_that_was_deleted_is_told(live: ApiClient, name: str, seq: int) -> None:
    live.append(name, 1, 2, 3)
    assert live.delete(f"/v0/topics/{name}").json["deleted"] is True
    assert live.append(name, *"abcde").json["seqs"] == [4, 5, 6, 7, 8]
    by_query = live.get(f"/v0/topics/{name}/records?from_seq={seq}").json
    for answer in live.diff(name, from_seq=seq).json, by_query:
        assert answer["tombstone"] == {
            "gap_from": seq + 1,
            "gap_to": 3,
            "reason": "recreated",
            "missed_estimate": 3 - seq,
            "earliest_seq": 4,
            "head_seq": 8,
        }
        assert seqs(answer) == [4, 5, 6, 7, 8]
    assert live.diff(name, from_seq=4).json["tombstone"] is None


def test_an_empty_topic_continues_above_the_one_that_was_deleted(live: ApiClient, name: str) -> None:
    live.append(name, 1, 2, 3)
    live.delete(f"/v0/topics/{name}")
    live.put(f"/v0/topics/{name}", {})
    state = live.get(f"/v0/topics/{name}").json
    assert (state["head_seq"], state["earliest_seq"], state["next_seq"], state["count"]) == (3, 4, 4, 0)
    answer = live.diff(name, from_seq=3).json
    assert (answer["tombstone"], answer["caught_up"], answer["next_from_seq"]) == (None, True, 3)
    for wrong in (0, 2):
        refused = live.post(f"/v0/topics/{name}", {"records": [{"data": 1}], "expected_head": wrong})
        assert (refused.status, refused.json["error"]["code"]) == (409, "head_mismatch")
    assert live.post(f"/v0/topics/{name}", {"records": [{"data": 1}], "expected_head": 3}).json["seqs"] == [4]


def test_a_cursor_beyond_the_head_is_told_that_the_topic_is_another(live: ApiClient, name: str) -> None:
    live.append(name, 1, 2)
    answer = live.diff(name, from_seq=50).json
    told = answer["tombstone"]
    assert (told["reason"], told["gap_from"], told["gap_to"], told["missed_estimate"]) == ("recreated", 1, 0, 0)
    assert seqs(answer) == [1, 2]


def test_deleted_records_are_skipped_silently(live: ApiClient, name: str) -> None:
    live.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": str(n % 2)} for n in range(6)]})
    live.post(f"/v0/topics/{name}/delete", {"match": "0"})
    answer = live.diff(name, limit=2).json
    assert (seqs(answer), answer["tombstone"]) == ([2, 4], None)
    assert (live.diff(name, from_seq=4).json["caught_up"], seqs(live.diff(name, from_seq=4).json)) == (True, [6])


def test_it_starts_at_a_time(live: ApiClient, name: str) -> None:
    for data in range(4):
        live.append(name, data)
        time.sleep(0.002)  # another millisecond
    records = live.diff(name).json["records"]
    for record in records:
        at = live.diff(name, from_ts=record["$ts"]).json
        assert seqs(at)[0] == record["$seq"]
    later = live.diff(name, from_ts=records[-1]["$ts"] + 60_000).json
    assert (later["records"], later["next_from_seq"], later["caught_up"]) == ([], 4, True)
    assert len(live.diff(name, from_ts=0).json["records"]) == 4


def test_a_read_from_a_time_has_no_tombstone(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"cap_records": 1})
    live.append(name, 1, 2)
    answer = live.diff(name, from_ts=0).json
    assert (seqs(answer), answer["tombstone"]) == ([2], None)


def test_a_topic_is_never_created(live: ApiClient, name: str) -> None:
    refused = live.diff(name)
    assert (refused.status, refused.code, refused.detail) == (404, "topic_not_found", {"topic": name})
    assert live.diff(name, from_ts=0).code == "topic_not_found"


def test_a_long_poll_ends_when_its_time_is_up(live: ApiClient, name: str) -> None:
    live.append(name, 1)
    answer = live.diff(name, from_seq=1, wait_ms=300).json
    assert (answer["records"], answer["caught_up"], answer["next_from_seq"]) == ([], True, 1)


def test_a_long_poll_does_not_wait_for_what_is_there(live: ApiClient, name: str) -> None:
    live.append(name, 1, node="a")
    live.patience = 20  # gone before a wait would end
    for asked in ({}, {"node": "a"}):  # own records are left out, and the cursor moves
        assert live.diff(name, wait_ms=30_000, **asked).json["next_from_seq"] == 1


def test_a_long_poll_ends_with_the_next_append(live: ApiClient, name: str) -> None:
    live.append(name, 1)
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(live.diff(name, from_seq=1, wait_ms=30_000).json))
    waiting.start()
    live.append(name, 2)
    waiting.join(DEADLINE)
    assert seqs(answers[0]) == [2]


REFUSED: list[Any] = [
    b"{",
    b"[]",
    b"null",
    b"\xff",
    {"from_seq": -1},
    {"from_seq": "1"},
    {"from_seq": 1.5},
    {"from_seq": None},
    {"from_seq": 2**63},
    {"from_seq": 10**40},
    {"from_ts": -1},
    {"from_ts": "now"},
    {"from_seq": 1, "from_ts": 1},
    {"limit": 0},
    {"limit": -1},
    {"limit": "all"},
    {"limit": None},
    {"node": 1},
    {"node": [1]},
    {"node": "x" * 129},
    {"node": ["a", "é" * 65]},
    {"node": ["a"] * 1001},
    {"match": "é" * 129},
    {"match": ["tag", "Eq", "x" * 257]},
    {"match": ["tag", "Glob", "x" * 257 + "*"]},
    {"node": "a\0"},
    {"match": 1},
    {"match": []},
    {"match": ["tag", "Eq"]},
    {"match": ["tag", "Like", "x"]},
    {"match": ["node", "Eq", "x"]},
    {"match": ["tag", "Glob", "x"]},
    {"match": ["tag", "Glob", "*x"]},
    {"match": ["tag", "Glob", "x*y*"]},
    {"match": ["tag", "Glob", 1]},
    {"match": "a\0"},
    {"window": "all"},
    {"order": "up"},
    {"tail": 0},
    {"tail": "all"},
    {"tail": 1, "from_seq": 1},
    {"tail": 1, "from_ts": 1},
    {"tail": 1, "limit": 1},
    {"tail": 1, "order": "desc"},
    {"tail": 1, "wait_ms": 1},
    {"order": "desc", "wait_ms": 1},
    {"order": "desc", "from_ts": 1},
    {"include_tags": 1},
    {"include_meta": "yes"},
    {"wait_ms": -1},
    {"wait_ms": "1"},
]


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: (body if isinstance(body, bytes) else str(body))[:40])
def test_what_makes_no_sense_is_refused(live: ApiClient, name: str, body: Any) -> None:
    live.put(f"/v0/topics/{name}")
    refused = live.post(f"/v0/topics/{name}/diff", body)
    assert (refused.status, refused.code) == (400, "invalid_request")


@pytest.mark.parametrize("bad", ["-a", "a%00b", "a%ff", "a%20b", "%C3%A9"])
def test_a_bad_name_is_refused(live: ApiClient, bad: str) -> None:
    refused = live.diff(bad)
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_another_media_type_is_refused(live: ApiClient, name: str) -> None:
    refused = live.post(f"/v0/topics/{name}/diff", b"{}", content_type="text/plain")
    assert (refused.status, refused.code) == (415, "unsupported_media_type")


def test_a_client_that_does_not_accept_json_is_refused(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}")
    assert live.post(f"/v0/topics/{name}/diff", b"{}", accept="image/png").code == "not_acceptable"


def test_a_get_is_refused_and_told_what_may_be_done(live: ApiClient, name: str) -> None:
    refused = live.get(f"/v0/topics/{name}/diff")
    assert (refused.status, refused.code) == (405, "method_not_allowed")
    assert "POST" in refused.headers["allow"]


def test_the_answer_is_json_whatever_the_records_hold(live: ApiClient, name: str) -> None:
    odd = '"\\\n'
    live.post(f"/v0/topics/{name}", {"records": [{"data": odd, "tag": odd, "node": odd, "meta": {odd: odd}}]})
    record = json.loads(live.diff(name, include_tags=True).body)["records"][0]
    assert (record["data"], record["$tag"], record["$node"], record["meta"]) == (odd, odd, odd, {odd: odd})
