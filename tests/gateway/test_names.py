"""Names of topics and routers change on the way to a server and back. Everything else passes as the bytes that it was."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import RENDERED, Forbidden, InvalidRequest, TopicsError
from base.names import check_topic_name
from gateway.api import Operation, Request, Response
from gateway.rewrite.frames import ChangedIds
from gateway.rewrite.names import (
    Raws,
    Renaming,
    prefixed_at_client,
    prefixed_at_server,
    quotable,
    renamed_request,
    renamed_response,
)
from gateway.rewrite.seqs import SEQS, shifted

PREFIX, UNION = prefixed_at_server("eu."), prefixed_at_client("eu.")
JSON = [(b"content-type", b"application/json")]


def sent(method: str, path: str, query: str = "", body: Any = None, **headers: str) -> Request:
    """The request as the server gets it."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return asyncio.run(renamed_request(Request(method, path, query, lines, content), PREFIX))


def answered(request: Request, body: Any, status: int = 200, renaming: Renaming = PREFIX) -> bytes:
    """The answer as the client gets it."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def run() -> bytes:
        response = Response(status, JSON, content)
        asked = await quotable(await renamed_request(request, renaming), response)
        return await (await renamed_response(request.operation, response, renaming, asked)).read()

    return asyncio.run(run())


def watch_id(seqs: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(seqs).encode()).decode().rstrip("=")


def test_names_in_paths_are_renamed() -> None:
    assert sent("POST", "/v0/topics/orders/diff").path == "/v0/topics/eu.orders/diff"
    assert sent("GET", "/v0/topics/orders/cursors/billing").path == "/v0/topics/eu.orders/cursors/billing"
    assert sent("GET", "/v0/routers/a%3Eb").path == "/v0/routers/eu.a%3Eb"
    assert sent("GET", "/v0/watch/wid_1").path == "/v0/watch/wid_1"


def test_names_in_queries_are_renamed() -> None:
    assert sent("GET", "/v0/routers", "source=orders").query == "source=eu.orders"
    assert sent("GET", "/v0/topics/orders/records", "from_seq=3").query == "from_seq=3"


def test_names_in_bodies_are_renamed_and_all_else_stays() -> None:
    router = sent("PUT", "/v0/routers/copy", body={"source": "orders", "dest": "audit", "filter": "x"})
    assert json.loads(router._body) == {"source": "eu.orders", "dest": "eu.audit", "filter": "x"}
    watch = sent("POST", "/v0/watch", body={"topics": {"orders": {"from_seq": 3}}, "node": "orders"})
    assert json.loads(watch._body) == {"topics": {"eu.orders": {"from_seq": 3}}, "node": "orders"}
    append = sent("POST", "/v0/topics/orders", body=b'{"records":[{"data": 1.0E+05 }],"config":{"dead_letter":"lost"}}')
    assert append._body == b'{"records":[{"data": 1.0E+05 }],"config":{"dead_letter":"eu.lost"}}'
    assert sent("POST", "/v0/topics/orders", body=b"no JSON")._body == b"no JSON"


def test_ids_that_resume_a_stream_are_renamed_and_come_back() -> None:
    found = sent("GET", "/v0/watch/wid_1", last_event_id=watch_id({"orders": 7}))
    ids = json.loads(base64.urlsafe_b64decode(found.header(b"last-event-id") or b""))
    assert ids == {"eu.orders": 7}
    assert sent("GET", "/v0/topics/orders/events", last_event_id="orders:7").header(b"last-event-id") == b"eu.orders:7"
    with pytest.raises(InvalidRequest, match="invalid Last-Event-ID: this stream gave out other ids"):
        sent("GET", "/v0/watch/wid_1", last_event_id="nonsense")


GET = Request("GET", "/v0/topics/orders")


def test_names_in_answers_are_renamed() -> None:
    assert answered(GET, b'{"topic":"eu.orders","head_seq":3}') == b'{"topic":"orders","head_seq":3}'
    listed = {"topics": [{"topic": "eu.a", "count": 1}, {"topic": "us.b"}], "next_cursor": "eu.a"}
    assert json.loads(answered(GET, listed)) == {"topics": [{"topic": "a", "count": 1}], "next_cursor": "eu.a"}
    routers = {"routers": [{"router": "eu.r", "source": "eu.a", "dest": "us.b", "last_error": None}]}
    assert json.loads(answered(GET, routers)) == {
        "routers": [{"router": "r", "source": "a", "dest": "*", "last_error": None}]
    }
    assert json.loads(answered(GET, {"topic": "eu.a", "deleted": True, "routers_removed": ["eu.r", "x"]})) == {
        "topic": "a", "deleted": True, "routers_removed": ["r"],
    }  # fmt: skip
    watched = {"wid": "w", "stream_url": "/v0/watch/w", "topics": {"eu.a": {"from_seq": 0}}}
    assert json.loads(answered(GET, watched)) == watched | {"topics": {"a": {"from_seq": 0}}}
    cursors = {"topic": "eu.a", "cursors": [{"topic": "eu.a", "cursor": "eu.r", "kind": "router"}, {"topic": "eu.a", "cursor": "eu.c", "kind": "named"}]}  # fmt: skip # noqa: E501
    assert [each["cursor"] for each in json.loads(answered(GET, cursors))["cursors"]] == ["r", "eu.c"]
    kinds = ("webhook", "subscription", "pipeline")
    owners = [{"topic": "eu.a", "cursor": name, "kind": kind} for kind in kinds for name in ("eu.w", "mine")]
    shown = json.loads(answered(GET, {"topic": "eu.a", "cursors": owners}))["cursors"]
    assert [each["cursor"] for each in shown] == ["w", "*"] * 3
    assert json.loads(answered(GET, owners[1]))["cursor"] == "*"
    record = {"$seq": 1, "data": {"topic": "eu.x"}, "path": {"topic": "eu.a", "seq": 9, "routers": ["eu.r"]}}
    assert json.loads(answered(GET, record)) == record | {"path": {"topic": "a", "seq": 9, "routers": ["r"]}}


@pytest.mark.parametrize("said", ["is full (records: 5, bytes: 9)", "is sealed: it takes no records"])
def test_the_error_of_a_blocked_router_has_the_names_of_the_client(said: str) -> None:
    for dest, shown in (("eu.b", "b"), ("us.audit", "*")):
        router = {"router": "eu.r", "source": "eu.a", "dest": dest, "last_error": f"dest {dest} {said}"}
        expected = {"router": "r", "source": "a", "dest": shown, "last_error": f"dest {shown} {said}"}
        assert json.loads(answered(GET, router)) == expected
        assert json.loads(answered(GET, {"routers": [router]})) == {"routers": [expected]}
    at_a_union = {"router": "r", "source": "a", "dest": "b", "last_error": f"dest b {said}"}
    assert (
        json.loads(answered(Request("GET", "/v0/routers/eu.r"), at_a_union, renaming=UNION))["last_error"]
        == f"dest eu.b {said}"
    )


@given(st.binary(max_size=30).map(lambda raw: json.dumps(raw.hex())))
def test_records_pass_as_they_are(data: str) -> None:
    records = f'[{{"$seq":1,"$ts":5, "data" : {{"topic":"eu.x", "n":1.0E+05,"n":2, "s":{data}}} }}]'
    body = f'{{"topic":"eu.orders","records":{records},"head_seq":1}}'.encode()
    assert answered(GET, body) == body.replace(b"eu.orders", b"orders", 1)


STAMP = {
    "router": "eu.r",
    "source": "eu.a",
    "source_topic_id": 1,
    "source_epoch": 1,
    "source_seq": 4,
    "key": "eu.r/1/4",
}


@pytest.mark.parametrize("renaming", [PREFIX, UNION])
def test_stamps_of_exactly_once_routers_are_renamed(renaming: Renaming) -> None:
    meta = {"own": 1, "_topics_router": STAMP}
    body = {"topic": "eu.a", "records": [{"$seq": 4, "data": {"_topics_router": 1}, "meta": meta}]}
    shown = renaming.to_client
    found = json.loads(answered(Request("GET", "/v0/topics/eu.orders"), body, renaming=renaming))["records"][0]
    expected = STAMP | {"router": shown("eu.r"), "source": shown("eu.a"), "key": f"{shown('eu.r')}/1/4"}
    assert found == {"$seq": 4, "data": {"_topics_router": 1}, "meta": {"own": 1, "_topics_router": expected}}


def test_the_origins_of_letters_and_of_mirrored_records_are_renamed() -> None:
    origin = {"topic": "eu.a", "site": "eu.site", "seq": 1, "ts": 2}
    body = {
        "topic": "eu.a",
        "claimed": [{"meta": {"$dead_letter_from": "eu.jobs", "_topics_mirror": origin, "x": "eu.a"}}],
    }
    found = json.loads(answered(Request("POST", "/v0/topics/a/claim"), body))["claimed"][0]["meta"]
    assert found == {"$dead_letter_from": "jobs", "_topics_mirror": origin | {"topic": "a"}, "x": "eu.a"}
    handover = {"here": "a", "source": "b", "records": [{"meta": {"_topics_mirror": origin | {"topic": "a"}}}]}
    sent_on = json.loads(sent("POST", "/v0/topics/a/mirror", body=handover)._body)
    assert sent_on == handover | {"records": [{"meta": {"_topics_mirror": origin}}]}


def test_the_answer_of_a_redrive_has_the_names_of_the_client() -> None:
    left = {"queue": "eu.full", "code": "topic_full", "message": "topic 'eu.full' is full", "seqs": [1]}
    body = {"topic": "eu.dead", "queues": {"eu.jobs": 2}, "skipped": [left, left | {"queue": None}]}
    found = json.loads(answered(Request("POST", "/v0/topics/dead/redrive"), body))
    assert found == {
        "topic": "dead",
        "queues": {"jobs": 2},
        "skipped": [left | {"queue": "full", "message": "topic 'full' is full"}, left | {"queue": None}],
    }


def test_errors_name_what_the_client_asked_for() -> None:
    error = {
        "error": {
            "code": "topic_not_found",
            "message": "topic 'eu.orders' does not exist",
            "detail": {"topic": "eu.orders"},
        }
    }
    found = json.loads(answered(GET, error, 404))["error"]
    assert found == {
        "code": "topic_not_found",
        "message": "topic 'orders' does not exist",
        "detail": {"topic": "orders"},
    }


PUT = Request("PUT", "/v0/routers/r", body=b'{"source":"a","dest":"b"}')


@pytest.mark.parametrize("kind", RENDERED)
def test_a_refusal_that_names_objects_of_others_hides_them_in_its_message_too(kind: type[TopicsError]) -> None:
    def refusal(prefix: str, other: str) -> dict[str, Any]:
        lists = "cycle" in kind.names
        names = {name: [f"{prefix}a", other] if lists else other for name in kind.names}
        return kind.of(**names, **dict.fromkeys(kind.plain, 5)).body()

    found = json.loads(answered(PUT, refusal("eu.", "us.secret"), kind.status))
    assert found == refusal("", "*")
    assert json.loads(answered(PUT, refusal("eu.", "eu.b"), kind.status)) == refusal("", "b")


@pytest.mark.parametrize("kind", [kind for kind in RENDERED if kind.plain])
def test_the_seqs_of_a_refusal_are_shifted_in_its_message_too(kind: type[TopicsError]) -> None:
    def refusal(seq: int) -> dict[str, Any]:
        return kind.of(
            **dict.fromkeys(kind.names, "5"), **{name: seq if name in SEQS else "5" for name in kind.plain}
        ).body()

    body = msgspec.json.decode(msgspec.json.encode(refusal(5)), type=Raws)
    assert json.loads(msgspec.json.encode(shifted(body, 100))) == refusal(105)


def test_a_refusal_of_an_earlier_server_hides_what_its_detail_has_not() -> None:
    text = "'eu.d' already has the source 'us.secret' (router '*'): share it"
    old = {
        "code": "topic_exists_incompatible",
        "message": text,
        "detail": {"reason": "router_dest_fan_in", "router": "*"},
    }
    assert b"us.secret" not in answered(PUT, {"error": old}, 409)


def test_a_refusal_quotes_what_the_client_sent() -> None:
    """Wherever the client sent it: also an invalid name, of which the refusal quotes the start."""
    forbidden = Forbidden("'eu.b' is outside this key's prefixes", name="eu.b").body()
    assert json.loads(answered(PUT, forbidden, 403))["error"] == {
        "code": "forbidden", "message": "'b' is outside this key's prefixes", "detail": {"name": "b"},
    }  # fmt: skip
    long = "b" * 100 + ">"
    put = Request("PUT", "/v0/topics/q", body=json.dumps({"type": "queue", "dead_letter": long}).encode())
    with pytest.raises(InvalidRequest) as refused:
        check_topic_name(f"eu.{long}", "dead_letter")
    message = json.loads(answered(put, refused.value.body(), 400))["error"]["message"]
    assert "eu." not in message
    assert f"invalid dead_letter '{'b' * 77}" in message


def test_a_word_in_quotes_that_is_not_a_name_stays() -> None:
    error = {"error": {"code": "invalid_request", "message": "unknown field 'dta'", "detail": {"field": "dta"}}}
    request = Request("POST", "/v0/topics/eu.orders")
    assert json.loads(answered(request, error, 400, UNION)) == error


def streamed(parts: list[bytes], renaming: Renaming = PREFIX) -> bytes:
    async def body() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def run() -> bytes:
        response = Response(200, [(b"content-type", b"text/event-stream")], body())
        return await (await renamed_response(Operation.FOLLOW_TOPIC, response, renaming, None)).read()

    return asyncio.run(run())


def frames(topic: str) -> bytes:
    stamp = STAMP | ({} if topic.startswith("eu.") else {"router": "r", "source": "a", "key": "r/1/4"})
    return (
        b"retry: 2000\n"
        + f'event: record\ndata: {{"topic":"{topic}","records":[{{"$seq":1,"data":{{"topic":"eu.x"}}}}],"to_seq":1}}\n'.encode()
        + b"id: "
        + base64.urlsafe_b64encode(json.dumps({topic: 1}, separators=(",", ":")).ljust(30).encode())
        + b"\n\n"
        + b": hb 17\n\n"
        + f'event: record\ndata: {{"topic":"{topic}","records":[{{"$seq":2,\ndata: "data":1,"meta":{{"_topics_router":'.encode()
        + json.dumps(stamp, separators=(",", ":")).encode()
        + b"}}]}\n\n"
        + f"id: {topic}:7\nevent: message\ndata: ".encode()
        + json.dumps({"$seq": 7, "meta": {"_topics_router": stamp}, "data": {"topic": "eu.x"}}).encode()
        + b"\n\n"
        + f'event: stream-reset\ndata: {{"channels":["{topic}"]}}\n\n'.encode()
    )


def events(stream: bytes) -> list[dict[str, Any]]:
    """Events as a browser sees them: each field with its value, the lines of data joined."""
    found = []
    for event in stream.split(b"\n\n"):
        fields: dict[str, Any] = {}
        for line in event.split(b"\n"):
            name, _, value = line.decode().partition(": ")
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value
        if "data" in fields:
            fields["data"] = json.loads(fields["data"])
        if "id" in fields and ":" not in fields["id"]:
            fields["id"] = json.loads(base64.urlsafe_b64decode(fields["id"]))
        found.append(fields)
    return found


@given(st.lists(st.integers(0, 1000), max_size=6))
def test_a_stream_is_renamed_wherever_it_is_cut(cuts: list[int]) -> None:
    whole = frames("eu.orders")
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    parts = [whole[begin:end] for begin, end in pairwise(places)]
    assert events(streamed(parts)) == events(frames("orders"))


@given(st.lists(st.integers(0, 1000), max_size=6))
def test_ids_are_changed_wherever_a_stream_is_cut_and_nothing_else_is(cuts: list[int]) -> None:
    whole = frames("orders")
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]

    async def body() -> AsyncIterator[bytes]:
        for begin, end in pairwise(places):
            if begin < end:
                yield whole[begin:end]

    async def run() -> bytes:
        return b"".join([part async for part in ChangedIds(body(), bytes.swapcase)])

    wanted = b"\n".join(
        b"id: " + line[4:].swapcase() if line.startswith(b"id: ") else line for line in whole.split(b"\n")
    )
    assert asyncio.run(run()) == wanted
