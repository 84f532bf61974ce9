"""Publishing over a WebSocket: the answers and refusals of HTTP, and the order of many in flight."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from select import select
from socket import SHUT_WR
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from sockets.socket import PART_BYTES
from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from tests.sockets import raw
from tests.sockets.client import Socket
from tests.sockets.raw import RawSocket
from tests.watch.wire import Api, new_name

pytestmark = pytest.mark.deep(56)


MIB = 1024 * 1024


@pytest.fixture
def topic() -> str:
    return new_name("ws")


def records(api: Api, topic: str) -> list[Any]:
    return [each["data"] for each in api.done("POST", f"/v0/topics/{topic}/diff", {"limit": 1000})["records"]]


def test_a_publish_is_acked_like_an_append(api: Api, socket: Socket, topic: str) -> None:
    first = socket.publish(topic, "a", "b", node="n")
    assert (first["op"], first["topic"], first["last_seq"], first["head_seq"]) == ("ack", topic, 2, 2)
    assert first["created"]
    assert first["performance"]["server_total_ms"] > 0
    assert "seqs" not in first
    assert socket.publish(topic, "c", return_seqs=True)["seqs"] == [3]
    again = [socket.publish(topic, "d", idempotency_key="k") for _ in range(2)]
    assert [(each["last_seq"], each["deduped"]) for each in again] == [(4, False), (4, True)]
    assert records(api, topic) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("more", [{}, {"idempotency_key": True}, {"some": True}])
def test_publishes_in_flight_keep_their_order(api: Api, socket: Socket, topic: str, more: dict[str, Any]) -> None:
    """Into a topic that the first of them creates; with a key, without, and mixed."""

    def key(n: int) -> dict[str, str]:
        return {"idempotency_key": f"k{n}"} if "idempotency_key" in more or ("some" in more and n % 3 == 0) else {}

    numbers = [socket.send("publish", topic=topic, records=[{"data": n}], **key(n)) for n in range(300)]
    seqs = [socket.answer(number)["last_seq"] for number in numbers]
    assert seqs == list(range(1, 301))
    assert records(api, topic) == list(range(300))


REFUSED: list[dict[str, Any]] = [
    {"records": []},
    {"records": [{"dat": 1}]},
    {"records": [{"data": 1, "tag": 7}]},
    {"records": [{"data": 1, "tag": "t" * 300}]},
    {"records": [{"data": 1, "node": "n" * 129}]},
    {"records": [{"data": 1, "meta": [1]}]},
    {"records": [{"data": 1}], "idempotency_key": ""},
    {"records": [{"data": 1}], "create": False},
    {"records": [{"data": 1}], "expected_head": 7},
    {"records": [{"data": 1}], "config": {"cap_records": -1}},
    {"records": [{"data": 1}], "idempotency_ky": "k"},
    {"records": [{"data": "x" * (1024 * 1024)}]},
    {"records": [{"data": 1}] * 10_001},
    {},
]


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: json.dumps(body)[:50])
def test_a_refusal_is_that_of_http(api: Api, socket: Socket, topic: str, body: dict[str, Any]) -> None:
    over_http = api.call("POST", f"/v0/topics/{topic}", body)
    assert over_http.status >= 400
    refused = socket.ask("publish", topic=topic, **body)
    assert refused.pop("op") == "error"
    assert isinstance(refused.pop("request_id"), int)
    assert refused == over_http.body["error"]
    assert socket.ask("ping")["op"] == "pong"


@pytest.mark.parametrize(
    ("message", "code", "request_id"),
    [
        ("nonsense", "invalid_request", None),
        ("[]", "invalid_request", None),
        ('{"request_id": "x"}', "invalid_request", "x"),
        ('{"op": "dance", "request_id": "x"}', "invalid_request", "x"),
        ('{"op": "ping", "more": 1, "request_id": 7}', "invalid_request", 7),
        ('{"op": "ping", "request_id": {"a": 1}}', "invalid_request", None),
        ('{"op": "publish", "records": [{"data": 1}], "request_id": "x"}', "invalid_request", "x"),
        ('{"op": "publish", "topic": "a/b", "records": [{"data": 1}], "request_id": "x"}', "invalid_request", "x"),
        ('{"op": "publish", "topic": "t", "copy": true, "records": [{"data": 1}]}', "invalid_request", None),
        ('{"op": "unsubscribe", "topic": "t", "request_id": "x"}', "not_found", "x"),
        ("[" * 100_000, "invalid_request", None),
    ],
)
def test_an_error_ends_no_socket(socket: Socket, message: str, code: str, request_id: Any) -> None:
    socket.connection.send(message)
    error = socket.receive()
    assert (error["op"], error["code"], error.get("request_id")) == ("error", code, request_id)
    assert socket.ask("ping")["op"] == "pong"


@pytest.mark.parametrize("op", ["subscribe", "join", "ping", "claim", "unsubscribe"])
def test_only_a_publish_is_large(socket: Socket, topic: str, op: str) -> None:
    """As over HTTP, where an append alone may have more than TOPICS_MAX_CALL_BYTES."""
    padding = " " * MIB
    socket.connection.send(
        f'{{"op": "publish", "request_id": "p", "topic": "{topic}", "records": [{{"data": 1}}]{padding}}}'
    )
    assert socket.next("ack", "error")["op"] == "ack"
    socket.connection.send(
        f'{{"op": "{op}", "request_id": 7, "topic": "{topic}", "group": "g", "positions": 1{padding}}}'
    )
    refused = socket.next("error")
    assert (refused["request_id"], refused["code"], refused["detail"]) == (7, "payload_too_large", {"max": MIB})


def test_a_scope_is_checked_before_the_fields(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_API_KEYS="writes:write,all:read+write+admin", WEB_WORKERS="1")
    with Socket(instance.port, "writes") as socket:
        for op in ("subscribe", "join"):
            assert socket.ask(op, topic="t", group="g", no_field=1)["code"] == "forbidden"


def test_large_messages_take_turns_with_bodies(instances: Callable[..., Instance]) -> None:
    """A byte takes a second, so nobody gets a second turn. What is behind a waiting message waits, other keys do not."""
    keys = "a:read+write,b:read+write"
    instance = instances(TOPICS_API_KEYS=keys, WEB_WORKERS="1", TOPICS_LARGE_BODIES_RATE="1")
    large = "x" * 100_000
    with Socket(instance.port, "a") as first, Socket(instance.port, "a") as second, Socket(instance.port, "b") as other:
        assert first.publish("t", large)["op"] == "ack"
        second.send("publish", topic="t", records=[{"data": large}])
        second.send("ping")
        assert other.publish("t", large)["op"] == "ack"
        assert first.publish("t", "small")["op"] == "ack"
        assert first.ask("ping")["op"] == "pong"
        with pytest.raises(TimeoutError):
            second.connection.recv(0)


def test_a_waiting_message_ends_with_its_socket(instances: Callable[..., Instance]) -> None:
    """Its place in the line and the bytes that it holds are free again."""
    instance = instances(WEB_WORKERS="1", TOPICS_LARGE_BODIES_RATE="1", TOPICS_MAX_BODIES_BYTES="250000")
    large = "x" * 100_000
    with Socket(instance.port) as first:
        assert first.publish("t", large)["op"] == "ack"
        with Socket(instance.port) as second, Socket(instance.port) as third:
            second.send("publish", topic="t", records=[{"data": large}])
            third.send("publish", topic="t", records=[{"data": large}])
            first.ask("ping")  # what arrived before is read, so no probe takes its room
            until(lambda: first.publish("t", "y" * 60_000)["op"] == "error", "the messages to be held")
        until(lambda: first.publish("t", "y" * 60_000)["op"] == "ack", "the messages to be released")


def test_compressed_messages_of_one_packet_are_read_in_parts_and_held(instances: Callable[..., Instance]) -> None:
    """A byte takes a second, so the first message waits for its turn. There is room for the messages of one part."""
    message = json.dumps({"op": "publish", "topic": "t", "records": [{"data": "x" * 100_000}]}).encode()
    compressed = raw.zipped(message)
    room = PART_BYTES // len(compressed) * len(message)
    instance = instances(
        WEB_WORKERS="1",
        TOPICS_WS_DEFLATE="1",
        TOPICS_LARGE_BODIES_RATE="1",
        TOPICS_MAX_BODIES_BYTES=str(room + 30_000),
    )
    with Socket(instance.port) as other, RawSocket(instance.port, zips=True) as client:
        assert other.publish("t", "x" * 100_000)["op"] == "ack"
        client.send(compressed * 400)
        other.ask("ping")  # what arrived before is read
        assert other.publish("t", "y" * 60_000)["detail"]["limit"] == "bodies_bytes"
        assert select([client.socket], [], [], 0)[0] == []  # none of them was refused


def test_all_compressed_messages_of_a_packet_are_answered(instances: Callable[..., Instance]) -> None:
    """More of them than a socket can have unanswered, of a client that has ended its side."""
    instance = instances(TOPICS_WS_DEFLATE="1", WEB_WORKERS="1")
    message = b'{"op": "publish", "topic": "t", "records": [{"data": %d}]}'
    with RawSocket(instance.port, zips=True) as client:
        client.send(b"".join(raw.zipped(message % number) for number in range(600)))
        client.socket.shutdown(SHUT_WR)
        *answers, end = client.rest()
        assert [each.json["last_seq"] for each in answers] == list(range(1, 601))
        assert end.code == 1000


def test_a_shutdown_answers_a_message_that_waits(instances: Callable[..., Instance]) -> None:
    instance = instances(WEB_WORKERS="1", TOPICS_LARGE_BODIES_RATE="1", TOPICS_MAX_BODIES_BYTES="150000")
    large = "x" * 100_000
    with Socket(instance.port) as first, Socket(instance.port) as second:
        assert first.publish("t", large)["op"] == "ack"
        second.send("publish", topic="t", records=[{"data": large}])
        first.ask("ping")  # what arrived before is read, so no probe takes its room
        until(lambda: first.publish("t", "y" * 60_000)["op"] == "error", "the message to be held")
        with ThreadPoolExecutor() as pool:
            stopping = pool.submit(instance.stop)
            assert second.next("ack", "error")["op"] == "ack"
            assert second.closed() == 1001
            assert stopping.result() == 0


@pytest.mark.parametrize("leaves", [False, True], ids=["the client stays", "the client is gone"])
def test_publishes_that_wait_do_not_run_with_a_revoked_key(instances: Callable[..., Instance], leaves: bool) -> None:
    """The first one waits for the topic, which an application holds, and the others behind it."""
    instance = instances(
        TOPICS_API_KEYS="all:read+write+admin", WEB_WORKERS="1", TOPICS_LOCK_TIMEOUT_MS=str(round(DEADLINE * 1000))
    )
    api = Api(instance.port, "all")
    api.append("t", 0)

    def refused() -> float:
        found = api.call("GET", "/v0/metrics", Accept="application/json").body["metrics"]["topics_http_requests"]
        told = {"method": "WS", "route": "/v0/ws publish", "status": "401"}
        return sum(each["value"] for each in found["samples"] if each["labels"] == told)

    with instance.connect() as database, instance.connect() as application:
        database.execute(
            "INSERT INTO topics_apikey (name, secret_sha256, read, write, delete_scope, admin, prefixes, created_ts)"
            " VALUES ('omega', sha256('omega'), true, true, false, false, '', 0)"
        )
        until(lambda: Api(instance.port, "omega").call("GET", "/v0/topics").status == 200, "the key to be known")
        with Socket(instance.port, "omega") as socket, Socket(instance.port, "omega") as other:
            with application.transaction():
                application.execute("SELECT FROM topics_topichead FOR UPDATE")
                for head in range(1, 6):
                    socket.send("publish", topic="t", records=[{"data": head}], expected_head=head)
                if leaves:
                    socket.connection.close()
                else:
                    socket.ask("ping")  # the publishes have arrived
                database.execute("UPDATE topics_apikey SET revoked_ts = 1")
                assert other.closed() == 1008
            until(lambda: refused() == 4, "the refusals")
    assert records(api, "t") == [0, 1]


def test_frames_that_are_no_commands_close_the_socket(server: Instance) -> None:
    with Socket(server.port) as binary:
        binary.connection.send(b"{}")
        assert binary.closed() == 1003
    with Socket(server.port) as invalid:
        invalid.connection.send(b"\xff", text=True)
        assert invalid.closed() == 1007
    with Socket(server.port) as huge:
        huge.connection.send("x" * (64 * 1024 * 1024 + 1))
        assert huge.closed() == 1009


def test_a_message_may_come_in_fragments(api: Api, socket: Socket, topic: str) -> None:
    whole = json.dumps({"op": "publish", "topic": topic, "records": [{"data": "é" * 1000}]}, ensure_ascii=False)
    socket.connection.send(whole[at : at + 7] for at in range(0, len(whole), 7))
    assert socket.receive()["op"] == "ack"
    assert records(api, topic) == ["é" * 1000]


def test_only_a_handshake_opens_a_socket(api: Api, server: Instance) -> None:
    plain = api.call("GET", "/v0/ws")
    assert (plain.status, plain.body["error"]["code"], plain.headers["upgrade"]) == (
        426,
        "upgrade_required",
        "websocket",
    )
    assert api.call("POST", "/v0/ws", {}).status == 405
    for origin, is_allowed in (
        (f"http://127.0.0.1:{server.port}", True),
        ("https://evil.example", False),
        ("null", False),
    ):
        if is_allowed:
            with Socket(server.port, origin=origin) as socket:
                assert socket.ask("ping")["op"] == "pong"
            continue
        with pytest.raises(InvalidStatus) as caught:
            Socket(server.port, origin=origin)
        assert caught.value.response.status_code == 403
