"""CloudEvents 1.0: events as bodies of an append, and as answers of reads."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import InvalidRequest
from contract import cloudevents
from contract.cloudevents import EVENT, EVENTS
from tests.api.clients import ApiClient, Reply
from tests.examples import examples

ORDER = {
    "specversion": "1.0",
    "id": "A-7",
    "source": "https://shop.example/orders",
    "type": "example.order.created",
    "subject": "order:7",
    "time": "2031-05-17T12:00:00.25+02:00",
    "data": {"id": 7, "total": 19.90},
}


def send(client: ApiClient, topic: str, body: Any, media: str = EVENT, **headers: str) -> Reply:
    return client.post(f"/v0/topics/{topic}", body, content_type=media, **headers)


def read(client: ApiClient, topic: str, **wanted: Any) -> list[Any]:
    answer = client.call("POST", f"/v0/topics/{topic}/diff", wanted, accept=EVENT)
    assert (answer.status, answer.headers["content-type"]) == (200, EVENTS)
    found: list[Any] = answer.json
    return found


def event(**attributes: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": "/shop", "type": "t", **attributes}


def test_an_event_is_a_record_and_comes_out_equal(live: ApiClient, name: str) -> None:
    answer = send(live, name, ORDER)
    assert (answer.status, answer.json["seqs"]) == (201, [1])
    (record,) = live.diff(name, include_tags=True).json["records"]
    attributes = {key: value for key, value in ORDER.items() if key != "data"}
    assert (record["$tag"], record["data"], record["meta"]) == ("order:7", ORDER["data"], {"cloudevents": attributes})
    assert read(live, name) == [ORDER]
    one = live.get(f"/v0/topics/{name}/records/1", accept=EVENT)
    assert (one.headers["content-type"], one.json) == (EVENT, ORDER)
    assert json.loads(one.headers["topics-answer"])["path"] == {"topic": name, "seq": 1, "routers": []}


def test_a_retry_appends_once_in_every_mode(live: ApiClient, name: str) -> None:
    first = event(subject="s", data={"a": 1})
    assert send(live, name, [first, event(id="2")], f"{EVENTS}; charset=utf-8").json["seqs"] == [1, 2]
    assert send(live, name, first).json["deduped"] is True
    turned = dict(reversed(first.items()))
    binary = {"ce_id": "1", "ce_source": "/shop", "ce_type": "t", "ce_subject": "s", "ce_specversion": "1.0"}
    assert send(live, name, turned, idempotency_key="another").json["seqs"] == [1]
    again = send(live, name, [first, event(id="3"), event(id="1", source="/other")], EVENTS).json
    assert (again["seqs"], again["deduplicated"]) == ([1, 3, 4], [0])
    other = send(live, name, b'{"a":1}', "application/json", **binary)
    assert (other.status, other.code) == (422, "idempotency_mismatch")  # this event has a datacontenttype
    assert len(read(live, name)) == 4


def test_headers_can_have_the_attributes(live: ApiClient, name: str) -> None:
    headers = {
        "ce_specversion": "1.0",
        "ce_id": '"7 \\" %E2%82%AC"',
        "ce_source": "/a%2520b",
        "ce_type": "t",
        "ce_n": "5",
    }
    bodies = {
        "application/json; charset=utf-8": (b'{"n": 1.50}', {"data": {"n": 1.5}}),
        "application/vnd.shop+json": (b"null", {"data": None}),
        "text/plain": ("Grüße".encode(), {"data": "Grüße"}),
        "text/csv": (b"\xff", {"data_base64": "/w=="}),
        'text/plain; charset="utf-16le"': ("é".encode(), {"data_base64": "w6k="}),
        "application/octet-stream": (b"\0\1", {"data_base64": "AAE="}),
        "image/png": (b"", {}),
        "": (b"[1]", {"data": [1]}),
    }
    expected = []
    for number, (media, (body, data)) in enumerate(bodies.items()):
        assert (
            send(live, name, body, media, **headers | {"ce_number": str(number)}, ce_subject=str(number)).status < 300
        )
        headers["ce_id"] = str(number)
        shown = '7 " €' if not number else str(number - 1)
        of_type = {"datacontenttype": media} if media else {}
        attributes = {**of_type, "n": "5", "number": str(number), "subject": str(number)}
        expected.append(event(id=shown, source="/a%20b", **attributes, **data))
    assert read(live, name) == expected


def test_a_plain_record_is_an_event_of_its_topic(live: ApiClient, name: str) -> None:
    live.post(f"/v0/topics/{name}", {"records": [{"data": [1], "tag": "a"}, {"data": 2, "meta": {"cloudevents": 5}}]})
    first, second = read(live, name, include_tags=True)
    assert first.pop("time").endswith("Z")
    source = f"/v0/topics/{name}"
    expected = {"specversion": "1.0", "source": source, "type": "topics.record", "datacontenttype": "application/json"}
    assert first == {**expected, "id": "1", "subject": "a", "data": [1]}
    assert (second["id"], second["data"]) == ("2", 2)
    sent_on = send(live, f"{name}.copy", [first, second], EVENTS)
    assert sent_on.json["count"] == 2
    assert read(live, f"{name}.copy") == [first, second]


def test_the_rest_of_an_answer_is_in_a_header(live: ApiClient, name: str) -> None:
    send(live, name, [event(id=str(n)) for n in range(3)], EVENTS)
    answer = live.get(f"/v0/topics/{name}/records?limit=2", accept=f"{EVENTS}, application/json;q=0.5")
    rest = json.loads(answer.headers["topics-answer"])
    assert (len(answer.json), rest["next_from_seq"], rest["caught_up"], rest["tombstone"]) == (2, 2, False, None)
    assert live.get(f"/v0/topics/{name}/records", accept="*/*").headers["content-type"] == "application/json"
    missing = live.get(f"/v0/topics/{name}.none/records", accept=EVENT)
    assert (missing.status, missing.code) == (404, "topic_not_found")


BAD = {
    "no id": ({**event(), "id": None}, "id"),
    "an empty id": (event(id=""), "id"),
    "a source with a space": (event(source="a b"), "source"),
    "another version": ({**event(), "specversion": "0.3"}, "specversion"),
    "an attribute in capitals": (event(orderId="7"), "orderId"),
    "an object as an attribute": (event(order={}), "order"),
    "a large number": (event(n=2**31), "n"),
    "a control character": (event(subject="a\n"), "subject"),
    "a time without a zone": (event(time="2031-05-17T12:00:00"), "time"),
    "a relative schema": (event(dataschema="/schema"), "dataschema"),
    "no media type": (event(datacontenttype="json"), "datacontenttype"),
    "data twice": (event(data=1, data_base64="AA=="), "data_base64"),
    "no Base64": (event(data_base64="?"), "data_base64"),
    "a config": (event(config={"dead_letter": "x"}), "config"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_event_is_refused(live: ApiClient, name: str, fault: str) -> None:
    bad, field = BAD[fault]
    refused = send(live, name, bad)
    assert (refused.status, refused.code, refused.detail["field"]) == (400, "invalid_request", field)
    batch = send(live, name, [event(), bad], EVENTS)
    assert (batch.status, batch.detail["field"], batch.detail["index"]) == (400, field, 1)
    assert live.get(f"/v0/topics/{name}").status == 404  # nothing was appended


def test_a_body_that_is_no_event_is_refused(live: ApiClient, name: str) -> None:
    binary = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/a", "ce_type": "t"}
    for status, body, media, headers in (
        (400, b"[]", EVENT, {}),
        (400, b"{}", EVENTS, {}),
        (400, b"[]", EVENTS, {}),
        (400, b"{", EVENT, {}),
        (400, b'{"id": "\xff"}', EVENT, {}),
        (400, [event(), event()], EVENTS, {}),
        (400, b"[" * 9000, EVENT, {}),
        (400, b"[1]", EVENTS, {}),
        (400, [event()] * 10_001, EVENTS, {}),
        (400, event(**{f"a{number}": 1 for number in range(61)}), EVENT, {}),
        (400, b'1}, {"data": 2', "application/json", binary),
        (400, b"1", "application/json", binary | {"ce_datacontenttype": "text/plain"}),
        (400, b"1", "application/json", binary | {"ce_id": "%FF"}),
        (400, event(subject="x" * 300), EVENT, {}),
        (415, b"", "application/cloudevents+protobuf", {}),
        (400, b"<a/>", "", binary),
    ):
        refused = send(live, name, body, media, **headers)
        assert (refused.status, len(refused.code) > 0) == (status, True), (body, media)


WORDS = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=20)
VALUES = WORDS | st.booleans() | st.integers(-(2**31), 2**31 - 1)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS, lambda each: st.lists(each, max_size=3)
)
DATA = st.one_of(
    st.fixed_dictionaries({}),
    JSONS.map(lambda value: {"data": value}),
    st.binary(max_size=20).map(lambda value: {"data_base64": base64.b64encode(value).decode()}),
)
NAMES = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(lambda name: name not in {*cloudevents.WANTED, "data"})
KNOWN = st.fixed_dictionaries({"id": WORDS, "type": WORDS}, optional={"subject": WORDS, "time": st.just(ORDER["time"])})


@settings(max_examples=examples(100), deadline=None)
@given(KNOWN, st.dictionaries(NAMES.filter(lambda name: name != "specversion"), VALUES, max_size=4), DATA)
def test_any_event_comes_out_equal(known: dict[str, Any], extensions: dict[str, Any], data: dict[str, Any]) -> None:
    sent = event(**extensions | known, **data)
    append = json.loads(cloudevents.as_append({b"content-type": EVENT.encode()}, msgspec.json.encode(sent)))
    (record,) = append["records"]
    stored = {"$seq": 1, "$ts": 0, "data": record["data"], "meta": {"traceparent": "00-x", **record["meta"]}}
    shown, _ = cloudevents.as_events("t", msgspec.json.encode({"records": [stored]}))
    assert json.loads(shown) == [sent]


METAS = st.dictionaries(st.sampled_from([*cloudevents.WANTED, "specversion", "data", "n"]), JSONS | st.just("1.0"))


@settings(max_examples=examples(100), deadline=None)
@given(METAS | JSONS, JSONS)
def test_every_record_is_a_valid_event(attributes: Any, data: Any) -> None:
    stored = {"$seq": 1, "$ts": 2**62, "$tag": "\n", "data": data, "meta": {"cloudevents": attributes}}
    shown, _ = cloudevents.as_events("t", msgspec.json.encode(stored))
    cloudevents.as_append({b"content-type": EVENT.encode()}, shown)


def test_a_key_has_source_and_id_apart() -> None:
    keys = {cloudevents.key(event(source=source, id=id)) for source, id in (("/a", "b"), ("/ab", ""), ("/", "ab"))}
    assert len(keys) == 3
    with pytest.raises(InvalidRequest, match="same source and id"):
        cloudevents.check_distinct(["a", "b", "a"])
