"""Following topics over a WebSocket: records, losses, deletes, filters, keys and clients that do not read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.api import raw
from tests.deadlines import DEADLINE
from tests.docs.printed import snippets
from tests.instances import Instance, until
from tests.sockets.client import Frame, Socket
from tests.watch.wire import Api, new_name

pytestmark = pytest.mark.deep(46)


@pytest.fixture
def topic(api: Api) -> str:
    name = new_name("ws")
    api.done("PUT", f"/v0/topics/{name}", {})
    return name


def read(socket: Socket, topic: str, count: int) -> list[Any]:
    """The next `count` values of a topic."""
    found: list[Any] = []
    while len(found) < count:
        frame = socket.until(lambda frame: frame["op"] == "record" and frame["topic"] == topic)
        found += [record["data"] for record in frame["records"]]
    return found


def test_it_shows_what_is_there_and_what_comes(api: Api, socket: Socket, topic: str) -> None:
    api.append(topic, *({"data": n} for n in range(3)))
    subscribed = socket.ask("subscribe", topic=topic, from_seq=1)
    assert (subscribed["op"], subscribed["topics"][topic]) == (
        "subscribed", {"from_seq": 1, "head_seq": 3, "earliest_seq": 1},
    )  # fmt: skip
    frame = socket.next("record")
    assert (frame["topic"], frame["to_seq"], frame["head_seq"]) == (topic, 3, 3)
    assert [record["$seq"] for record in frame["records"]] == [2, 3]
    assert socket.next("caught_up")["head_seq"] == 3
    api.append(topic, {"data": "new"})
    assert read(socket, topic, 1) == ["new"]
    assert socket.ask("unsubscribe", topic=topic)["op"] == "unsubscribed"
    api.append(topic, {"data": "not for this socket"})
    assert socket.ask("ping")["op"] == "pong"
    assert [frame for frame in socket.frames if frame["op"] == "record"] == []


def test_a_pong_has_the_seqs_to_resume_from(api: Api, socket: Socket, topic: str) -> None:
    gone = new_name("ws")
    api.done("PUT", f"/v0/topics/{gone}", {})
    assert socket.ask("ping", positions=True)["positions"] == {}
    socket.ask("subscribe", topics={topic: {}, gone: {}}, node="n1")
    api.append(topic, {"data": 1}, {"data": 2, "node": "n1"}, {"data": 3, "node": "n1"})
    assert read(socket, topic, 1) == [1]
    until(
        lambda: socket.ask("ping", positions=True)["positions"] == {topic: 3, gone: 0}, "the own records to be passed"
    )
    api.done("DELETE", f"/v0/topics/{gone}")
    until(lambda: socket.ask("ping", positions=True)["positions"] == {topic: 3}, "the deleted topic to be left out")
    assert "positions" not in socket.ask("ping")
    assert socket.ask("ping", positions="all")["code"] == "invalid_request"


def test_several_topics_have_starts_of_their_own(api: Api, socket: Socket, topic: str) -> None:
    other = new_name("ws")
    for name in (topic, other):
        api.append(name, {"data": "old"})
    socket.ask("subscribe", topics={topic: {"from_seq": 0}, other: {"tail": True}})
    api.append(other, {"data": "new"})
    assert read(socket, topic, 1) == ["old"]
    assert read(socket, other, 1) == ["new"]


def test_own_records_and_other_tags_are_left_out(api: Api, socket: Socket, topic: str) -> None:
    socket.ask("subscribe", topic=topic, node="me", match=["tag", "Eq", "a"], include_tags=True, include_meta=True)
    socket.publish(topic, "own", node="me")
    api.append(topic, {"data": 1, "tag": "b"}, {"data": 2, "tag": "a", "meta": {"m": 1}})
    [record] = socket.next("record")["records"]
    assert (record["data"], record["$tag"], record["meta"]) == (2, "a", {"m": 1})


def test_losses_and_deletes_are_told(api: Api, socket: Socket) -> None:
    topic = new_name("ws")
    api.done("PUT", f"/v0/topics/{topic}", {"cap_records": 2})
    api.append(topic, *({"data": n} for n in range(5)))
    socket.ask("subscribe", topic=topic, from_seq=0)
    lost = socket.next("tombstone")
    assert (lost["topic"], lost["gap_from"], lost["gap_to"], lost["earliest_seq"]) == (topic, 1, 3, 4)
    assert read(socket, topic, 2) == [3, 4]
    api.call("DELETE", f"/v0/topics/{topic}")
    assert socket.next("topic_deleted")["topic"] == topic
    assert socket.ask("ping")["op"] == "pong"


@pytest.mark.parametrize(
    "command",
    [
        {},
        {"topic": "nobody"},
        {"topic": "a", "topics": {"b": {}}},
        {"topics": {}},
        {"topic": "a", "from_seq": -1},
        {"topic": "a", "limit": "x"},
        {"topic": "a", "froms_eq": 1},
    ],
)
def test_a_subscribe_that_is_invalid_is_refused(socket: Socket, command: dict[str, Any]) -> None:
    refused = socket.ask("subscribe", **command)
    assert (refused["op"], refused["code"]) in [("error", "invalid_request"), ("error", "topic_not_found")]
    assert socket.ask("ping")["op"] == "pong"


def test_jobs_are_claimed_and_settled(api: Api, socket: Socket) -> None:
    queue = new_name("q")
    api.done("PUT", f"/v0/topics/{queue}", {"type": "queue"})
    socket.publish(queue, "a", "b")
    jobs = socket.ask("claim", topic=queue, node="w", max=2)
    assert (jobs["op"], [job["data"] for job in jobs["claimed"]]) == ("jobs", ["a", "b"])
    leases = [job["lease_id"] for job in jobs["claimed"]]
    extended = socket.ask("extend", topic=queue, node="w", seqs=[1], lease_ids=leases[:1], lease_ms=60_000)
    assert (extended["op"], extended["extended"]) == ("extended", 1)
    assert socket.ask("nack", topic=queue, node="w", seqs=[2], lease_ids=leases[1:])["nacked"] == 1
    assert socket.ask("ack", topic=queue, node="w", seqs=[1], lease_ids=leases[:1])["acked"] == 1
    assert socket.ask("claim", topic=new_name("none"), node="w")["code"] == "topic_not_found"


def test_each_command_needs_its_scope_and_prefix(instances: Callable[..., Instance]) -> None:
    keys = "reads:read:a.,writes:write:a.,all:read+write+admin+delete"
    instance = instances(TOPICS_API_KEYS=keys, WEB_WORKERS="1")
    Api(instance.port, "all").done("PUT", "/v0/topics/a.t", {})
    with Socket(instance.port, "reads") as reads, Socket(instance.port, query="?token=writes") as writes:
        assert reads.ask("subscribe", topic="a.t")["op"] == "subscribed"
        assert reads.publish("a.t", 1)["code"] == "forbidden"
        assert writes.publish("a.t", 1)["op"] == "ack"
        assert read(reads, "a.t", 1) == [1]
        assert writes.publish("b.t", 1)["code"] == "forbidden"
        assert writes.publish("a.u", 1, config={"cap_records": 1})["code"] == "forbidden"
        assert writes.ask("subscribe", topic="a.t")["code"] == "forbidden"
        assert reads.ask("subscribe", topic="b.t")["code"] == "forbidden"
    assert Api(instance.port).call("GET", "/v0/ws").status == 401


def test_a_client_that_does_not_read_holds_up_no_other(api: Api, server: Instance, topic: str) -> None:
    with Socket(server.port, max_queue=1) as idle, Socket(server.port) as active:
        for each in (idle, active):
            each.ask("subscribe", topic=topic)
        for _ in range(30):
            api.append(topic, *({"data": "x" * 100_000} for _ in range(10)))
        assert len(read(active, topic, 300)) == 300
        assert active.ask("ping")["op"] == "pong"
        assert len(read(idle, topic, 300)) == 300  # it reads after all, and nothing was lost


def test_a_shutdown_answers_what_has_begun(instances: Callable[..., Instance]) -> None:
    instance = instances(WEB_WORKERS="1")
    with Socket(instance.port) as socket, ThreadPoolExecutor() as pool:
        assert socket.publish("t", 1)["op"] == "ack"
        assert socket.ask("subscribe", topic="t")["op"] == "subscribed"
        stopping = pool.submit(instance.stop)
        assert socket.closed() == 1001
        assert stopping.result() == 0


NODE = """
const socket = new WebSocket(process.argv[1]);
const command = {op: "publish", request_id: 1, topic: process.argv[2], records: [{data: "node"}]};
socket.onopen = () => socket.send(JSON.stringify(command));
socket.onmessage = (event) => { console.log(event.data); socket.close(); };
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here")
def test_nodes_own_client_publishes(server: Instance, topic: str) -> None:
    command = ["node", "--experimental-websocket", "-e", NODE, f"ws://127.0.0.1:{server.port}/v0/ws", topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    frame: Frame = json.loads(done.stdout)
    assert (frame["op"], frame["last_seq"]) == ("ack", 1), done.stderr


def printed(language: str, server: Instance) -> str:
    """The program of this language in the docs, for this server."""
    (code,) = snippets("docs/websocket.md", language)
    return code.replace("localhost:4000", f"127.0.0.1:{server.port}")


def test_the_printed_python_shows_its_record(api: Api, server: Instance) -> None:
    api.call("PUT", "/v0/topics/orders", {})
    done = subprocess.run(
        [sys.executable, "-c", printed("python", server)], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.stdout.split()[-1] == "record", done.stderr
    assert done.stdout.split()[0] == "subscribed"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here")
def test_the_printed_javascript_shows_its_record(api: Api, server: Instance) -> None:
    api.call("PUT", "/v0/topics/orders", {})
    code = printed("js", server) + "\nsetTimeout(() => process.exit(), 3000);"
    command = ["node", "--experimental-websocket", "-e", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    frames = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert {"subscribed", "ack", "record"} <= {frame["op"] for frame in frames}, done.stdout + done.stderr


def test_a_revoked_key_ends_its_socket(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_API_KEYS="all:read+write+admin+delete", WEB_WORKERS="1")
    with instance.connect() as database:
        database.execute(
            "INSERT INTO topics_apikey (name, secret_sha256, read, write, delete_scope, admin, prefixes, created_ts)"
            " VALUES ('omega', sha256('omega'), true, false, false, false, '', 0)"
        )
        until(lambda: Api(instance.port, "omega").call("GET", "/v0/topics").status == 200, "the key to be known")
        with Socket(instance.port, "omega") as socket:
            assert socket.ask("ping")["op"] == "pong"
            database.execute("UPDATE topics_apikey SET revoked_ts = 1")
            assert socket.next("error")["code"] == "unauthorized"
            assert socket.closed() == 1008


def test_messages_are_compressed_by_choice_and_bounded(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_WS_DEFLATE="1", WEB_WORKERS="1")
    with Socket(instance.port, compression="deflate") as socket:
        assert socket.connection.protocol.extensions != []
        assert socket.publish("t", "x" * 100_000)["op"] == "ack"
        socket.ask("subscribe", topic="t")
        assert read(socket, "t", 1) == ["x" * 100_000]
        socket.connection.send("x" * (65 * 1024 * 1024))  # some 60 kB on the wire
        assert socket.closed() == 1009


def test_a_small_compressed_message_does_not_become_a_large_one(instances: Callable[..., Instance]) -> None:
    """Also not in fragments, each of which is small."""
    instance = instances(TOPICS_WS_DEFLATE="1", WEB_WORKERS="1")
    begin, padding = '{"op": "publish", "topic": "t", "records": [{"data": 1}]', " " * (512 * 1024)
    with Socket(instance.port, compression="deflate") as socket:
        socket.connection.send([begin, padding, "}"])
        assert socket.next("ack")["last_seq"] == 1
        with suppress(ConnectionClosed):  # the socket can end before the last fragment
            socket.connection.send([begin, *[padding] * 8, "}"])
        assert socket.closed() == 1009


def test_a_client_that_answers_no_ping_is_disconnected(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_WS_PING_MS="200", WEB_WORKERS="1")
    with raw.connection(instance.port) as silent:
        upgrade = ("upgrade: websocket", "connection: Upgrade", "sec-websocket-version: 13")
        silent.sendall(raw.request("GET", "/v0/ws", *upgrade, "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="))
        silent.settimeout(DEADLINE)
        got = b""
        while part := silent.recv(65536):  # until the server ends the connection
            got += part
    assert got.startswith(b"HTTP/1.1 101 ")
    assert got.endswith(b"\x89\x00")  # a ping


def test_a_socket_too_many_is_refused(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_MAX_STREAMS="1", WEB_WORKERS="1")
    with Socket(instance.port) as first:
        assert first.ask("ping")["op"] == "pong"
        with pytest.raises(InvalidStatus) as caught:
            Socket(instance.port)
        assert caught.value.response.status_code == 429


def test_sockets_count_among_streams(server: Instance) -> None:
    def open_streams() -> list[float]:
        text = server.get("/v0/metrics")[1]
        return [float(line.split()[-1]) for line in text.splitlines() if line.startswith("topics_open_streams ")]

    before = open_streams()
    with Socket(server.port), Socket(server.port):
        until(lambda: open_streams() > before, "sockets among the streams in the metrics")
