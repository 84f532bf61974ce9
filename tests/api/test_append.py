"""POST /v0/topics/:topic."""

import json
import sys
from types import FrameType
from typing import Any

import pytest

from base.surrogates import lone_surrogate
from tests.api.clients import ApiClient
from topics.append.records import Append, check_rows
from topics.models import IdempotencyKey, Topic
from wire.request.parse import parse


def test_it_works(live: ApiClient, name: str) -> None:
    first = live.post(f"/v0/topics/{name}", {"records": [{"data": {"a": 1}}, {"data": None}]})
    assert first.status == 201
    answer = first.json
    assert answer.pop("performance").keys() == {"server_total_ms", "wal_append_ms", "fsync_ms"}
    expected = {"topic": name, "first_seq": 1, "last_seq": 2, "seqs": [1, 2], "head_seq": 2, "count": 2}
    assert answer == {**expected, "created": True, "deduped": False}

    second = live.append(name, 3)
    assert (second.status, second.json["seqs"], second.json["created"]) == (200, [3], False)
    assert second.headers["content-type"] == "application/json"


def test_seqs_are_left_out_when_not_wanted(live: ApiClient, name: str) -> None:
    for _ in range(2):
        answer = live.post(f"/v0/topics/{name}?return_seqs=false", {"records": [{"data": 1}]}).json
        assert "seqs" not in answer
    assert live.post(f"/v0/topics/{name}?return_seqs=true", {"records": [{"data": 1}]}).json["seqs"] == [3]
    assert "seqs" not in live.append(name, 1, return_seqs=False).json
    assert live.append(name, 1, return_seqs=True).json["seqs"] == [5]
    assert (
        "seqs"
        not in live.post(f"/v0/topics/{name}?return_seqs=false", {"records": [{"data": 1}], "return_seqs": True}).json
    )


def test_a_record_keeps_its_node_tag_and_meta_and_takes_the_batchs_node(live: ApiClient, name: str) -> None:
    records = [
        {"data": 1},
        {"data": 2, "node": "own", "tag": "t", "meta": {"b": 1, "a": [2]}},
        {"data": 3, "node": None, "tag": None, "meta": None},
        {"data": 4, "tag": "", "meta": {}},
    ]
    live.post(f"/v0/topics/{name}", {"records": records, "node": "batch"})
    read = live.diff(name, include_tags=True).json["records"]
    plain = [{key: value for key, value in record.items() if key not in ("$ts", "$seq")} for record in read]
    assert plain == [
        {"$node": "batch", "data": 1},
        {"$node": "own", "$tag": "t", "meta": {"b": 1, "a": [2]}, "data": 2},
        {"$node": "batch", "data": 3},
        {"$node": "batch", "$tag": "", "meta": {}, "data": 4},
    ]


def test_a_topic_that_must_not_be_created_is_not(live: ApiClient, name: str) -> None:
    refused = live.append(name, 1, create=False)
    assert (refused.status, refused.code) == (404, "topic_not_found")
    assert live.append(name, 1, create=True).status == 201
    assert live.append(name, 2, create=False).status == 200


def test_config_counts_only_where_it_creates(live: ApiClient, name: str) -> None:
    assert live.append(name, 1, config={"ttl_ms": 60_000, "durable": True}).status == 201
    assert live.append(name, 2, config={"ttl_ms": 5}).status == 200
    config = live.get(f"/v0/topics/{name}").json["config"]
    assert (config["ttl_ms"], config["durability"]) == (60_000, "fsync")


@pytest.mark.guarantee("W6")
def test_a_key_answers_the_first_seqs_again(live: ApiClient, name: str) -> None:
    body = {"records": [{"data": 1}, {"data": 2}], "idempotency_key": "k-1"}
    first, again = live.post(f"/v0/topics/{name}", body), live.post(f"/v0/topics/{name}", body)
    assert (first.status, again.status) == (201, 200)
    assert (first.json["deduped"], again.json["deduped"]) == (False, True)
    assert again.json["seqs"] == first.json["seqs"] == [1, 2]
    assert live.append(name, 3).json["seqs"] == [3]
    assert live.post(f"/v0/topics/{name}", body).json["head_seq"] == 3


def test_the_bodys_key_wins_over_the_headers(live: ApiClient, name: str) -> None:
    live.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, idempotency_key="head")
    again = live.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, idempotency_key="head")
    assert again.json["deduped"] is True
    other = {"records": [{"data": 2}], "idempotency_key": "body"}
    assert live.post(f"/v0/topics/{name}", other, idempotency_key="head").json["deduped"] is False


def test_a_key_in_the_header_is_the_same_text_in_the_body(live: ApiClient, name: str) -> None:
    """A header is bytes: tests hand it over as latin-1 text."""
    for key in ("Bestellung-7-ü", "注文-7", "😀"):
        said = key.encode().decode("latin-1")
        first = live.post(f"/v0/topics/{name}", {"records": [{"data": key}]}, idempotency_key=said)
        again = live.append(name, key, idempotency_key=key)
        assert (first.json["deduped"], again.json["deduped"]) == (False, True)
        assert again.json["seqs"] == first.json["seqs"]


def test_a_key_in_the_header_that_is_not_utf_8_is_refused(live: ApiClient, name: str) -> None:
    refused = live.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, idempotency_key="caf\xe9")
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert "Idempotency-Key is not UTF-8 (byte 3)" in refused.json["error"]["message"]
    assert live.get(f"/v0/topics/{name}").status == 404


OTHERS: list[dict[str, Any]] = [
    {"records": [{"data": 2}]},
    {"records": [{"data": 1}, {"data": 1}]},
    {"records": [{"data": "1"}]},
    {"records": [{"data": 1, "tag": "t"}]},
    {"records": [{"data": 1, "meta": {}}]},
    {"records": [{"data": 1}], "node": "n"},
]


@pytest.mark.guarantee("W6")
@pytest.mark.parametrize(
    "config", [{}, {"discard": "reject", "cap_records": 9}, {"durability": "memory", "cap_records": 9}]
)
def test_a_key_with_other_records_is_refused(live: ApiClient, name: str, config: dict[str, Any]) -> None:
    live.put(f"/v0/topics/{name}", config)
    assert live.append(name, 1, idempotency_key="k").json["deduped"] is False
    for other in OTHERS:
        refused = live.post(f"/v0/topics/{name}", {**other, "idempotency_key": "k", "expected_head": 7})
        assert (refused.status, refused.code) == (422, "idempotency_mismatch")
        assert refused.detail == {"key": "k", "first_seq": 1, "last_seq": 1}
    assert live.append(name, 1, idempotency_key="k").json["deduped"] is True
    assert live.get(f"/v0/topics/{name}").json["head_seq"] == 1


def test_a_key_for_each_record_stores_only_the_unknown_ones(live: ApiClient, name: str) -> None:
    def append(*data: int, **more: Any) -> Any:
        named = {"records": [{"data": each} for each in data], "idempotency_keys": [f"row-{each}" for each in data]}
        answer = live.post(f"/v0/topics/{name}", named | more).json
        return {field: value for field, value in answer.items() if field not in ("topic", "performance")}

    first = {
        "first_seq": 1,
        "last_seq": 2,
        "seqs": [1, 2],
        "head_seq": 2,
        "count": 2,
        "created": True,
        "deduped": False,
    }
    assert append(1, 2) == {**first, "deduplicated": []}
    more = {"first_seq": 1, "last_seq": 3, "seqs": [1, 2, 3], "head_seq": 3, "count": 3, "created": False}
    assert append(1, 2, 3) == {**more, "deduped": False, "deduplicated": [0, 1]}
    assert append(1, 2, 3) == {**more, "deduped": True, "deduplicated": [0, 1, 2]}
    assert append(3, return_seqs=False) == {
        "first_seq": 3,
        "last_seq": 3,
        "head_seq": 3,
        "count": 1,
        "created": False,
        "deduped": True,
        "deduplicated": [0],
    }
    assert [record["data"] for record in live.diff(name).json["records"]] == [1, 2, 3]


def test_the_keys_of_records_that_fit_no_append_are_refused(live: ApiClient, name: str) -> None:
    records = [{"data": 1}, {"data": 2}, {"data": 3}]
    for wrong, said in (
        ({"idempotency_keys": ["a", "b"]}, "idempotency_keys has 2 entries: expected 3, one for each of records"),
        ({"idempotency_keys": []}, "idempotency_keys has 0 entries"),
        ({"idempotency_keys": ["a", "b", "a"]}, "idempotency_keys[0] and idempotency_keys[2] are both 'a'"),
        ({"idempotency_keys": ["a", "b", ""]}, "invalid idempotency_keys[2]: expected 1 to 256 characters"),
        ({"idempotency_keys": ["a", "b" * 257, None]}, "invalid idempotency_keys[1]"),
        ({"idempotency_keys": ["\0", None, None]}, "idempotency_keys[0] contains a NUL character"),
        ({"idempotency_keys": [1, None, None]}, "idempotency_keys[0]"),
        ({"idempotency_keys": ["a", "b", "c"], "idempotency_key": "k"}, "leave one out"),
    ):
        refused = live.post(f"/v0/topics/{name}", {"records": records, **wrong})
        assert (refused.status, refused.code) == (400, "invalid_request")
        assert said in refused.json["error"]["message"]
    assert live.get(f"/v0/topics/{name}").status == 404
    assert live.post(f"/v0/topics/{name}", {"records": records, "idempotency_keys": None}).json["seqs"] == [1, 2, 3]


def test_the_headers_key_names_the_records_without_a_key(live: ApiClient, name: str) -> None:
    """The gateway adds the header, and sends the append again if an answer is lost."""
    body = {"records": [{"data": 1}, {"data": 2}, {"data": 3}], "idempotency_keys": [None, "b", None]}
    assert live.post(f"/v0/topics/{name}", body, idempotency_key="k").json["deduplicated"] == []
    again = live.post(f"/v0/topics/{name}", body, idempotency_key="k").json
    assert (again["seqs"], again["deduplicated"]) == ([1, 2, 3], [0, 1, 2])
    other = live.post(f"/v0/topics/{name}", body, idempotency_key="other").json
    assert (other["seqs"], other["deduplicated"]) == ([4, 2, 5], [1])


def test_what_is_no_record_may_differ_under_a_key(live: ApiClient, name: str) -> None:
    body = {"records": [{"data": 1, "node": "n"}], "idempotency_key": "k"}
    live.post(f"/v0/topics/{name}", body)
    for same in (
        {"records": [{"data": 1}], "node": "n", "create": False, "expected_head": 0, "return_seqs": False},
        {"records": [{"data": 1, "node": "n", "tag": None, "meta": None}], "config": {"ttl_ms": 1}},
    ):
        assert live.post(f"/v0/topics/{name}", {**same, "idempotency_key": "k"}).json["deduped"] is True


def test_the_digest_of_records_stays_what_it_is() -> None:
    """It is kept with keys: a version that made another of the same records would refuse retries of what one before appended."""
    wanted = parse(
        b'{"node": "m", "records": [{"data": {"a": 1.50}, "tag": "\xc3\xa9"}, {"data": null, "node": "n", "meta": {"k": [1]}}]}',
        Append,
    )
    assert check_rows(wanted).digest() == r"\x1fb2847c69544882d9ae1d552c5aac11"


def test_a_key_that_is_kept_without_a_digest_is_believed(views: ApiClient, name: str) -> None:
    """One of a version before there were digests."""
    views.append(name, 1, idempotency_key="k")
    IdempotencyKey.objects.filter(topic__name=name).update(digest=None)
    assert views.append(name, 2, idempotency_key="k").json["deduped"] is True


def test_a_key_over_its_window_is_that_of_the_next_append(views: ApiClient, name: str) -> None:
    """Where no worker runs: it takes away keys that are over their window, and this one is for a moment."""
    views.put(f"/v0/topics/{name}", {"idempotency_window_ms": 0})
    views.append(name, 1, idempotency_key="k")
    views.append(name, 2, idempotency_key="k")
    views.put(f"/v0/topics/{name}", {"idempotency_window_ms": 120_000})
    assert views.append(name, 2, idempotency_key="k").json["seqs"] == [2]
    assert views.append(name, 1, idempotency_key="k").code == "idempotency_mismatch"


def test_a_key_is_forgotten_after_the_window(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"idempotency_window_ms": 0})
    body = {"records": [{"data": 1}], "idempotency_key": "k"}
    live.post(f"/v0/topics/{name}", body)
    assert live.post(f"/v0/topics/{name}", body).json["deduped"] is False


def test_a_key_of_256_characters_is_the_longest(live: ApiClient, name: str) -> None:
    for long, status in (("é" * 256, 201), ("é" * 257, 400), ("", 400)):
        assert live.append(name, 1, idempotency_key=long).status == status
    headed = live.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, idempotency_key="k" * 257)
    assert (headed.status, headed.code) == (400, "invalid_request")


def test_an_append_that_expects_another_head_changes_nothing(live: ApiClient, name: str) -> None:
    assert live.append(name, 1, expected_head=0).status == 201
    refused = live.append(name, 2, expected_head=0)
    assert (refused.status, refused.code, refused.detail["head_seq"]) == (409, "head_mismatch", 1)
    assert live.append(name, 2, expected_head=1).json["seqs"] == [2]
    assert live.diff(name).json["head_seq"] == 2


@pytest.mark.parametrize("cap", [{"cap_records": 2}, {"cap_bytes": 2}])
def test_a_full_topic_that_rejects_takes_nothing(live: ApiClient, name: str, cap: dict[str, int]) -> None:
    live.put(f"/v0/topics/{name}", {"discard": "reject", **cap})
    assert live.append(name, 1, 2).status == 200
    refused = live.append(name, 3)
    assert (refused.status, refused.code) == (422, "topic_full")
    assert live.diff(name).json["head_seq"] == 2


def test_a_full_topic_drops_the_oldest(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"cap_records": 2})
    assert live.append(name, 1, 2, 3).json["seqs"] == [1, 2, 3]
    assert live.get(f"/v0/topics/{name}").json["earliest_seq"] == 2


@pytest.mark.parametrize("durability", ["fsync", "disk", "memory", "ephemeral"])
def test_every_durability_is_served(live: ApiClient, name: str, durability: str) -> None:
    live.put(f"/v0/topics/{name}", {"durability": durability})
    answer = live.append(name, "x").json
    assert (answer["performance"]["fsync_ms"] > 0) == (durability == "fsync")
    assert [record["data"] for record in live.diff(name).json["records"]] == ["x"]


VERBATIM = [
    b"1.0",
    b"1e5",
    b"-0.0",
    b"1E400",
    b"12345678901234567890",
    b'{"b":1,"a":2}',
    b'{"a":1,"a":2}',
    b'{ "a" : [ 1 , 2 ] }',
    b'"\\u00e9\\/\\n"',
    '"é 𝄞"'.encode(),
    b'"\\ud834\\udd1e"',
    b'"\\u0000"',
    b"null",
    b"true",
    b'""',
    b"[]",
    b"[" * 128 + b"]" * 128,
]


@pytest.mark.guarantee("W8")
def test_data_comes_back_byte_for_byte(live: ApiClient, name: str) -> None:
    body = b'{"records":[' + b",".join(b'{"data":%b}' % data for data in VERBATIM) + b"]}"
    assert live.post(f"/v0/topics/{name}", body).status == 201
    read = live.diff(name).body
    for data in VERBATIM:
        assert b'"data":%b}' % data in read


@pytest.mark.guarantee("W8")
def test_meta_comes_back_byte_for_byte(live: ApiClient, name: str) -> None:
    meta = b'{ "n":1.0, "n":1e400, "\\u0041":"\\u0000" }'
    assert live.post(f"/v0/topics/{name}", b'{"records":[{"data":1,"meta":%b}]}' % meta).status == 201
    assert b'"meta":%b,"data":1}' % meta in live.diff(name).body


MALFORMED: list[Any] = [
    b"",
    b"{",
    b'{"records":[{"data":1}]',
    b'{"records":[{"data":1}]} x',
    b"null",
    b"[]",
    b'"x"',
    b"1",
    b"\xff\xfe",
    b'{"records":[{"data":"\xff"}]}',
    b'{"records":[{"data":1}],"x":"\xed\xa0\x80"}',
    b'{"records":[{"data":1,"tag":"\\ud800"}]}',
    '{"records":[{"data":"\\ud80é"}]}'.encode(),
    b'{"records":[{"data":"\\ud800"}]}',
    b'{"records":[{"data":01}]}',
    b'{"records":[{"data":NaN}]}',
    b'{"records":[{"data":' + b"[" * 200_000 + b"]" * 200_000 + b"}]}",
    {},
    {"records": []},
    {"records": {}},
    {"records": None},
    {"records": [{}]},
    {"records": [1]},
    {"records": [None]},
    {"records": [{"data": 1, "tag": 5}]},
    {"records": [{"data": 1, "node": ["a"]}]},
    {"records": [{"data": 1, "meta": []}]},
    {"records": [{"data": 1, "meta": "x"}]},
    {"records": [{"data": 1, "tag": "a\0b"}]},
    {"records": [{"data": 1, "node": "a\0b"}]},
    {"records": [{"data": 1}], "node": "a\0b"},
    {"records": [{"data": 1}], "node": 1},
    {"records": [{"data": 1}], "create": "yes"},
    {"records": [{"data": 1}], "create": None},
    {"records": [{"data": 1}], "idempotency_key": 7},
    {"records": [{"data": 1}], "idempotency_key": "a\0b"},
    {"records": [{"data": 1}], "expected_head": "1"},
    {"records": [{"data": 1}], "expected_head": -1},
    {"records": [{"data": 1}], "expected_head": 2**63},
    {"records": [{"data": 1}], "config": {"ttl_ms": -1}},
    {"records": [{"data": 1}], "config": {"durability": "maybe"}},
    {"records": [{"data": 1}], "config": []},
]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: (body if isinstance(body, bytes) else str(body))[:40])
@pytest.mark.parametrize("exists", [False, True])
def test_a_malformed_body_is_refused_and_appends_nothing(live: ApiClient, name: str, body: Any, exists: bool) -> None:
    if exists:
        live.put(f"/v0/topics/{name}")
    refused = live.post(f"/v0/topics/{name}", body)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert live.get(f"/v0/topics/{name}").status == (200 if exists else 404)
    if exists:
        assert live.diff(name).json["head_seq"] == 0


@pytest.mark.parametrize(
    ("text", "lone"),
    [
        (rb'"\ud800"', rb"\ud800"),
        (rb'{"a\uDC00b": 1}', rb"\uDC00"),
        (rb'"\ud83d\ude00 \\ud800 \\\udfff"', rb"\udfff"),
    ],
)
def test_half_a_surrogate_pair_is_refused_and_named(live: ApiClient, name: str, text: bytes, lone: bytes) -> None:
    body = b'{"records":[{"data":%s}]}' % text
    refused = live.post(f"/v0/topics/{name}", body)
    assert (refused.status, refused.code) == (400, "invalid_request")
    message = refused.json["error"]["message"]
    assert message == f"the JSON contains half a surrogate pair, {lone.decode()} (byte {body.index(lone)})"


def test_to_look_for_half_a_pair_takes_no_step_for_each_escape() -> None:
    """A body may have 30 million escapes, and its event loop waits for this."""

    def steps(body: bytes) -> int:
        taken: list[str] = []

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            taken.append(event)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert lone_surrogate(body) is None
        finally:
            sys.settrace(before)
        return len(taken)

    assert steps(rb'"\"\n\ud83d\ude00\u0041"' * 1000) == steps(b"")


def test_whole_surrogate_pairs_and_escaped_backslashes_come_back_as_sent(live: ApiClient, name: str) -> None:
    text = rb'"\ud83d\ude00 \\ud800 \\\\udc00"'
    assert live.post(f"/v0/topics/{name}", b'{"records":[{"data":%s}]}' % text).status == 201
    assert text in live.diff(name).body


@pytest.mark.parametrize("query", ["return_seqs=maybe", "return_seqs=", "return_seqs=2", "return_seqs=%ff"])
def test_an_unknown_query_value_is_refused(live: ApiClient, name: str, query: str) -> None:
    refused = live.post(f"/v0/topics/{name}?{query}", {"records": [{"data": 1}]})
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_a_name_is_not_cut_off_at_a_nul(live: ApiClient, name: str) -> None:
    assert live.append(name, 1).status == 201
    for refused in (live.append(f"{name}%00x", 2), live.post(f"/v0/topics/{name}%00x/diff", {})):
        assert (refused.status, refused.code) == (400, "invalid_request")
    assert live.post(f"/v0/topics/{name}/diff", {}).json["head_seq"] == 1


BAD_NAMES = ["-a", ".a", "a%20b", "a%00b", "%00", "a%ff", "%C3%A9", "a" * 256, "a%3Eb", "a%0Ab", "a%0A", "a+b"]


@pytest.mark.parametrize("bad", BAD_NAMES)
def test_a_bad_name_is_refused(live: ApiClient, bad: str) -> None:
    refused = live.append(bad, 1)
    assert (refused.status, refused.code) == (400, "invalid_request")
    refused = live.append(bad, 1, create=False)
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_names_are_byte_exact_and_up_to_255_long(live: ApiClient, name: str) -> None:
    long = (name + "A.b_c:d-" * 40)[:255]
    assert live.append(long, 1).status == 201
    assert live.append(long.upper(), 1).status == 201
    assert live.append(name.replace("t", "%74", 1), 1).json["topic"] == name


def size(length: int, letter: str = "é") -> str:
    """A string of so many bytes."""
    width = len(letter.encode())
    return letter * (length // width) + "x" * (length % width)


@pytest.mark.parametrize("letter", ["x", "é", "𝄞"])
@pytest.mark.parametrize(("field", "most"), [("tag", 256), ("node", 128)])
def test_tags_and_nodes_are_limited_in_bytes(live: ApiClient, name: str, field: str, most: int, letter: str) -> None:
    record = {"data": 1, field: size(most, letter)}
    assert live.post(f"/v0/topics/{name}", {"records": [record]}).status == 201
    shown = live.diff(name, include_tags=True).json["records"][0]
    assert shown[f"${field}"] == size(most, letter)
    record[field] = size(most + 1, letter)
    assert live.post(f"/v0/topics/{name}", {"records": [{"data": 1}, record]}).code == "invalid_request"
    assert live.diff(name).json["head_seq"] == 1


def test_the_batchs_node_is_limited_in_bytes(live: ApiClient, name: str) -> None:
    assert live.append(name, 1, node=size(128)).status == 201
    assert live.append(name, 1, node=size(129)).code == "invalid_request"


def test_meta_is_limited_in_bytes_and_keys(live: ApiClient, name: str) -> None:
    def with_meta(meta: bytes) -> Any:
        return live.post(f"/v0/topics/{name}", b'{"records":[{"data":1,"meta":%b}]}' % meta)

    most = b'{"k":"%b"}' % size(16 * 1024 - 8).encode()
    assert len(most) == 16 * 1024
    assert with_meta(most).status == 201
    assert with_meta(most[:-2] + b'x"}').code == "invalid_request"
    assert with_meta(json.dumps({str(n): n for n in range(64)}).encode()).status == 200
    assert with_meta(json.dumps({str(n): n for n in range(65)}).encode()).code == "invalid_request"


def test_a_record_is_limited_in_bytes_with_its_meta(live: ApiClient, name: str) -> None:
    most = b'"%b"' % size(1024 * 1024 - 2).encode()
    assert live.post(f"/v0/topics/{name}", b'{"records":[{"data":%b}]}' % most).status == 201
    larger = [b'{"data":"x%b}' % most[1:], b'{"data":%b,"meta":{}}' % most]
    for record in larger:
        refused = live.post(f"/v0/topics/{name}", b'{"records":[{"data":1},%b]}' % record)
        assert (refused.status, refused.code) == (400, "record_too_large")
        assert refused.detail == {"index": 1, "max": 1024 * 1024}
    assert live.diff(name).json["head_seq"] == 1


def test_ten_thousand_records_are_the_most(live: ApiClient, name: str) -> None:
    most = live.append(name, *range(10_000))
    assert (most.status, most.json["last_seq"], len(most.json["seqs"])) == (201, 10_000, 10_000)
    refused = live.append(name, *range(10_001))
    assert (refused.status, refused.code, refused.detail["max"]) == (400, "batch_too_large", 10_000)
    assert live.diff(name).json["head_seq"] == 10_000


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_another_media_type_is_refused(live: ApiClient, name: str, content_type: str) -> None:
    refused = live.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, content_type=content_type)
    assert (refused.status, refused.code) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"]
)
def test_json_by_another_spelling_is_taken(live: ApiClient, name: str, content_type: str) -> None:
    assert live.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, content_type=content_type).status == 201


def test_a_client_that_does_not_accept_json_gets_nothing_done(live: ApiClient, name: str) -> None:
    refused = live.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, accept="image/png")
    assert (refused.status, refused.code) == (406, "not_acceptable")
    assert live.get(f"/v0/topics/{name}").status == 404


def test_the_cap_on_topics_is_told(views: ApiClient, name: str, settings) -> None:
    settings.TOPICS_MAX_TOPICS = Topic.objects.count() + 1
    assert views.append(name, 1).status == 201
    refused = views.append(name + "2", 1)
    assert (refused.status, refused.code) == (429, "throttled")
    assert refused.detail == {"limit": "topics", "max": settings.TOPICS_MAX_TOPICS}
    assert refused.headers["retry-after"] == "60"  # somebody has to delete a topic first
