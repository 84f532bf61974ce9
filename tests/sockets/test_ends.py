"""How a socket ends: a client that has ended its side, a message that arrives too slowly, and a server without room."""

from __future__ import annotations

import json
import socket as sockets
import struct
from collections.abc import Callable
from select import select
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from contract.operations import LONGEST_WAIT_MS
from tests.instances import Instance, until
from tests.sockets.client import Socket
from tests.sockets.raw import CLOSE, CONT, PING, PONG, TEXT, RawSocket, Received, close, frame
from tests.watch.wire import Api, new_name

pytestmark = pytest.mark.deep


def command(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def publish(topic: str, count: int) -> bytes:
    """Frames that append one record each."""
    return b"".join(frame(TEXT, command(op="publish", topic=topic, records=[{"data": n}])) for n in range(count))


def claim(queue: str) -> bytes:
    """A claim that waits for a job, as long as one may."""
    return command(op="claim", topic=queue, node="w", wait_ms=LONGEST_WAIT_MS)


def close_code(received: Received | None) -> int:
    assert received is not None
    assert received.opcode == CLOSE
    return received.code


def test_a_client_that_has_ended_its_side_gets_its_answers(server: Instance) -> None:
    """More commands than a socket can have unanswered."""
    topic = new_name("ws")
    with RawSocket(server.port) as client:
        client.send(publish(topic, 600))
        client.socket.shutdown(sockets.SHUT_WR)
        *answers, end = client.rest()
        assert [each.json["last_seq"] for each in answers] == list(range(1, 601))
        assert close_code(end) == 1000


def test_a_client_that_follows_and_ends_its_side_is_not_kept(server: Instance) -> None:
    topic = new_name("ws")
    Api(server.port).done("PUT", f"/v0/topics/{topic}", {})
    with RawSocket(server.port) as client:
        client.send(frame(TEXT, command(op="subscribe", topic=topic)))
        assert [client.receive().json["op"] for _ in range(2)] == ["subscribed", "caught_up"]  # type: ignore[union-attr]
        client.socket.shutdown(sockets.SHUT_WR)
        assert close_code(client.receive()) == 1000
        assert client.receive() is None


def test_a_client_that_is_gone_has_its_records_stored(server: Instance) -> None:
    topic = new_name("ws")
    with RawSocket(server.port) as client:
        client.send(publish(topic, 20))
    api = Api(server.port)
    until(lambda: api.call("GET", f"/v0/topics/{topic}").body.get("head_seq") == 20, "the records")


@pytest.mark.parametrize("last", [b"", close(1000)], ids=["the client ends its side", "it sends a close frame"])
def test_a_claim_that_waits_ends_with_its_client(instances: Callable[..., Instance], last: bytes) -> None:
    """So a job that comes later is for others. A program that exits ends just its side."""
    instance = instances(WEB_WORKERS="1")
    api, queue = Api(instance.port), new_name("q")
    api.done("PUT", f"/v0/topics/{queue}", {"type": "queue"})

    def is_for_others() -> bool:
        with RawSocket(instance.port) as client:
            client.send(frame(TEXT, claim(queue)) + frame(TEXT, command(op="ping")))
            assert client.receive().json["op"] == "pong"  # type: ignore[union-attr]
            if last:
                client.send(last)
            else:
                client.socket.shutdown(sockets.SHUT_WR)
            api.append(queue, 1)
            claimed = api.done("POST", f"/v0/topics/{queue}/claim", {"node": "other"})["claimed"]
            assert close_code(client.rest()[-1]) == 1000
            return bool(claimed)

    until(is_for_others, "a claim that had begun to wait when its client left")


@pytest.mark.parametrize("is_reset", [False, True], ids=["the client ends", "the connection breaks"])
def test_a_client_that_leaves_is_noticed_while_the_server_does_not_read(
    instances: Callable[..., Instance], is_reset: bool
) -> None:
    """There are more commands than a socket can have unanswered, and each waits for a job. They end, and the place is free."""
    instance = instances(TOPICS_MAX_STREAMS_PER_KEY="1", WEB_WORKERS="1")
    api = Api(instance.port)
    api.done("PUT", "/v0/topics/q", {"type": "queue"})
    with RawSocket(instance.port) as client:
        client.send(frame(TEXT, claim("q")) * 800)
        api.done("GET", "/v0/topics/q")  # what arrived before is read
        if is_reset:
            client.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
        client.file.close()  # it would keep the connection open
    until(lambda: _opens(instance.port, f"http://127.0.0.1:{instance.port}"), "the place of the client")


def arrived_within(client: RawSocket, seconds: float) -> list[Received]:
    """The frames that arrive in this time."""
    found = []
    while select([client.socket], [], [], seconds)[0] and (received := client.receive()) is not None:
        found.append(received)
    return found


SLOW = {"TOPICS_UPLOAD_GRACE_MS": "500", "TOPICS_UPLOAD_LEAST_RATE": "1000", "WEB_WORKERS": "1"}


def test_a_message_that_trickles_in_ends_the_socket(instances: Callable[..., Instance]) -> None:
    """One frame of which some bytes arrive, and fragments with pings between."""
    instance = instances(**SLOW)
    begun = frame(TEXT, b"x" * 5000)[:50]
    for parts in ([begun, *(b"x" for _ in range(10_000))], [frame(TEXT, b"a", fin=False), *[frame(PING)] * 10_000]):
        with RawSocket(instance.port) as client:
            for part in parts:
                client.send(part)
                received = arrived_within(client, 0.05)
                if received and received[-1].opcode != PONG:
                    break
            assert close_code(received[-1]) == 1008
            assert b"too slowly" in received[-1].data


def test_a_long_message_that_is_fast_enough_arrives(instances: Callable[..., Instance]) -> None:
    """For longer than the period of the least rate. Idle sockets have no least rate."""
    instance = instances(**SLOW, TOPICS_WS_PING_MS="60000")
    with RawSocket(instance.port) as client, RawSocket(instance.port) as idle:
        client.send(frame(TEXT, b"[", fin=False))
        for _ in range(20):
            client.send(frame(CONT, b" " * 1000, fin=False))
            assert arrived_within(idle, 0.1) == []
        client.send(frame(CONT, b"]"))
        answer = client.receive()
        assert answer is not None
        assert answer.json["code"] == "invalid_request"


def test_a_server_without_room_says_try_again_later(instances: Callable[..., Instance]) -> None:
    """A page gets a close code, because a browser shows no status. Other clients get the status."""
    instance = instances(TOPICS_MAX_STREAMS_PER_KEY="1", WEB_WORKERS="1")
    page = f"http://127.0.0.1:{instance.port}"
    with Socket(instance.port) as open_one:
        with pytest.raises(InvalidStatus) as caught:
            Socket(instance.port)
        assert (caught.value.response.status_code, caught.value.response.headers["retry-after"]) == (429, "1")
        with Socket(instance.port, origin=page) as refused:
            assert refused.closed() == 1013
        assert open_one.ask("ping")["op"] == "pong"
    until(lambda: _opens(instance.port, page), "a place")


def _opens(port: int, origin: str) -> bool:
    with Socket(port, origin=origin) as socket:
        try:
            socket.send("ping")
            return socket.receive()["op"] == "pong"
        except Exception:
            return False
