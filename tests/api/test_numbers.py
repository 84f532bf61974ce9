"""Topics with `numbers: "double"`: they refuse a number that no double holds, and keep what the server moves."""

from __future__ import annotations

from base.clock import now_ms
from tests.api.clients import ApiClient, Reply
from tests.instances import until

DOUBLE = {"numbers": "double"}
LARGE = b'{"amounts": [1, 2.5, {"a b": -1e400}]}'
HINT = 'is beyond the range of a double, and the topic has numbers "double": send the number as a string'


def send(api: ApiClient, topic: str, *records: bytes, more: bytes = b"") -> Reply:
    return api.post(f"/v0/topics/{topic}", b'{"records": [%b]%b}' % (b",".join(records), more))


def refused(reply: Reply, field: str, index: int = 0) -> None:
    """Asserts that the reply is the refusal of a number."""
    assert (reply.status, reply.code) == (400, "invalid_request"), reply
    assert reply.detail == {"field": field, "index": index}
    assert reply.json["error"]["message"] == f"{field} {HINT}"


def head(api: ApiClient, topic: str) -> int:
    return int(api.get(f"/v0/topics/{topic}").json["head_seq"])


def test_an_append_is_refused_whole_with_the_path(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", DOUBLE)
    good = b'{"data": {"n": 1.7976931348623157e308, "text": "1e400"}, "meta": {"n": 1e-400}}'
    assert send(api, name, good).status == 200
    field = 'records[1].data.amounts[2]["a b"]'
    refused(send(api, name, good, b'{"data": %b}' % LARGE), field, 1)
    refused(send(api, name, good, good, b'{"data": 1, "meta": {"x": 1e309}}'), "records[2].meta.x", 2)
    refused(send(api, name, b'{"data": 1e309}'), "records[0].data")
    refused(send(api, name, b'{"data": %b}' % (b"9" * 309)), "records[0].data")
    for more in (b', "idempotency_key": "k"', b', "expected_head": 1', b', "idempotency_keys": ["a"]'):
        refused(send(api, name, b'{"data": [1e400]}', more=more), "records[0].data[0]")
    assert head(api, name) == 1


def test_a_topic_that_an_append_creates_checks_that_append(api: ApiClient, name: str) -> None:
    for config in (b'{"numbers": "double"}', b'{"numbers": "double", "discard": "reject", "cap_records": 9}'):
        refused(send(api, name, b'{"data": 1e400}', more=b', "config": %b' % config), "records[0].data")
        assert api.get(f"/v0/topics/{name}").status == 404
    assert send(api, name, b'{"data": 1e308}', more=b', "config": {"numbers": "double"}').status == 201
    assert api.get(f"/v0/topics/{name}").json["config"]["numbers"] == "double"


def test_the_config_changes_what_later_appends_may_send(api: ApiClient, name: str) -> None:
    assert send(api, name, b'{"data": 1e400}').status == 201
    assert api.put(f"/v0/topics/{name}", DOUBLE).json["config"]["numbers"] == "double"
    refused(send(api, name, b'{"data": 1e400}'), "records[0].data")
    assert b'"data":1e400' in api.diff(name).body  # what the topic has stays
    assert api.put(f"/v0/topics/{name}", {"numbers": "any"}).status == 200
    assert send(api, name, b'{"data": 1e400}').status == 200
    wrong = api.put(f"/v0/topics/{name}", {"numbers": "float"})
    assert (wrong.status, wrong.code) == (400, "invalid_request")


def test_a_router_and_a_copy_keep_each_record(api: ApiClient, name: str) -> None:
    source, dest = f"{name}-a", f"{name}-b"
    api.put(f"/v0/topics/{dest}", DOUBLE)
    assert api.put(f"/v0/routers/{name}", {"source": source, "dest": dest}).status == 201
    assert send(api, source, b'{"data": 1e400}', b'{"data": 2}').status in (200, 201)
    until(lambda: head(api, dest) == 2, "the router")
    assert b'"data":1e400' in api.diff(dest).body
    api.put(f"/v0/topics/{name}", {**DOUBLE, "sealed": True})
    copied = send(api, name, b'{"$seq": 7, "$ts": 1000, "data": 1e400}', more=b', "copy": true')
    assert (copied.status, head(api, name)) == (200, 7)


def test_a_schedule_is_checked_when_it_is_put(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"type": "queue"})
    later = b'"not_before": %d' % (now_ms() + 10**9)
    path = f"/v0/topics/{name}/schedules/s"
    assert api.put(path, b'{"data": 1e400, %b}' % later).status == 201
    api.put(f"/v0/topics/{name}", DOUBLE)
    refused(api.put(path, b'{"data": %b, %b}' % (LARGE, later)), 'data.amounts[2]["a b"]')
    refused(api.put(path, b'{"data": 1, "meta": {"x": 1e400}, %b}' % later), "meta.x")
    assert b'"data":1e400' in api.get(path).body
