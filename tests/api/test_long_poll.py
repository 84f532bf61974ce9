"""Long polls hold no thread: while many wait, everybody else is answered."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.clients import HttpClient, Reply
from tests.deadlines import DEADLINE
from tests.instances import Instance, until

pytestmark = pytest.mark.deep


POLLS, THREADS = 16, 2
KEYS = "polling:read:,working:read+write+delete+admin:"


def poll(live: HttpClient, number: int) -> Reply:
    """A long poll, of the kinds that there are: as a plain GET, and as a diff of a client that accepts several types."""
    if number % 3 == 0:
        return live.get("/v0/topics/t/records?from_seq=1&wait_ms=30000", authorization="Bearer polling")
    more = {"accept": "application/json, text/plain"} if number % 3 == 1 else {}
    asked = {"from_seq": 1, "wait_ms": 30_000}
    return live.post("/v0/topics/t/diff", asked, authorization="Bearer polling", **more)


def admitted(live: HttpClient, number: int) -> Reply:
    """A poll that asks again where the look below took its place."""
    while (reply := poll(live, number)).status == 429:
        pass
    return reply


@pytest.mark.guarantee("S1")
def test_while_many_wait_everybody_else_is_answered(instances: Callable[..., Instance]) -> None:
    settings = {"WEB_WORKERS": "1", "WEB_THREADS": str(THREADS)}
    server = instances(TOPICS_API_KEYS=KEYS, TOPICS_MAX_IN_FLIGHT_PER_KEY=str(POLLS), **settings)
    live, working = HttpClient(server.port), {"authorization": "Bearer working"}

    def append(data: Any) -> Reply:
        return live.post("/v0/topics/t", {"records": [{"data": data}]}, **working)

    assert append(1).status == 201
    with ThreadPoolExecutor(POLLS) as threads:
        polls: list[Future[Reply]] = [threads.submit(admitted, live, number) for number in range(POLLS)]
        until(
            lambda: live.get("/v0/topics", authorization="Bearer polling").status == 429, "all of them to be under way"
        )
        for _ in range(3):
            for path in ("/v0/health", "/healthz", "/v0/ready", "/readyz"):
                assert live.get(path).status == 200
            assert live.post("/v0/topics/other", {"records": [{"data": 1}]}, **working).status in (200, 201)
            assert len(live.post("/v0/topics/t/diff", {}, **working).json["records"]) == 1
            assert live.put("/v0/topics/other", {}, **working).status == 200
            assert live.get("/v0/topics/t/records/1", **working).status == 200
        assert not any(each.done() for each in polls)
        append(2)
        for each in polls:
            assert [record["data"] for record in each.result(DEADLINE).json["records"]] == [2]


@pytest.mark.parametrize("resets", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("path", ["diff", "claim"])
def test_the_wait_of_a_client_that_is_gone_ends(instances: Callable[..., Instance], path: str, resets: bool) -> None:
    """Its place in flight is free long before its time is up, and no job is claimed for it."""
    server = instances(TOPICS_API_KEYS=KEYS, TOPICS_MAX_IN_FLIGHT_PER_KEY=str(POLLS), WEB_WORKERS="1")
    live, working = HttpClient(server.port), {"authorization": "Bearer working"}
    kind = {"type": "queue", "claim_jitter_ms": 60_000} if path == "claim" else {}
    assert live.put("/v0/topics/t", kind, **working).status == 201
    if path == "claim":
        live.post("/v0/topics/t", {"records": [{"data": 1}]}, **working)
    body = b'{"node":"w"}' if path == "claim" else b'{"wait_ms":30000}'
    head = b"POST /v0/topics/t/%b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer working\r\ncontent-type: application/json\r\n"
    sent = head % path.encode() + b"content-length: %d\r\n\r\n%b" % (len(body), body)
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(POLLS)]
    for client in clients:
        client.sendall(sent.replace(b"host: x", b"host: 127.0.0.1"))
    until(lambda: live.get("/v0/topics", **working).status == 429, "all of them to be under way")
    for client in clients:
        if resets:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    until(lambda: live.get("/v0/topics", **working).status == 200, "a free place", seconds=20)
    if path == "claim":
        found = live.get("/v0/topics/t", **working).json["queue"]
        assert (found["ready"], found["in_flight"]) == (1, 0)


def test_a_poll_ends_with_its_time_with_an_append_and_with_its_topic(instances: Callable[..., Instance]) -> None:
    live = HttpClient(instances(WEB_WORKERS="1").port)
    live.append("t", 1)
    path = "/v0/topics/t/records?from_seq=1"
    # Its time is up: nothing was there to tell.
    answer = live.get(f"{path}&wait_ms=300").json
    assert (answer["records"], answer["caught_up"], answer["next_from_seq"]) == ([], True, 1)
    # It does not wait for what is there, nor for a topic that is not.
    assert len(live.get("/v0/topics/t/records?wait_ms=30000").json["records"]) == 1
    assert live.get("/v0/topics/none/records?wait_ms=30000").code == "topic_not_found"
    assert live.get(f"/v0/topics/t/records?from_ts={2**50}&wait_ms=300").json["records"] == []
    with ThreadPoolExecutor() as threads:
        # The next append ends it.
        woken = threads.submit(live.get, f"{path}&wait_ms=30000")
        live.append("t", 2)
        assert [record["data"] for record in woken.result(DEADLINE).json["records"]] == [2]
        # And a topic that is deleted ends it.
        ended = threads.submit(live.get, "/v0/topics/t/records?from_seq=2&wait_ms=30000")
        live.delete("/v0/topics/t")
        assert ended.result(DEADLINE).code == "topic_not_found"

    # Each of them counts once. A process tells what it counted within a second.
    def counted() -> dict[str, int]:
        metrics = live.get("/v0/metrics", accept="application/json").json["metrics"]
        return {
            sample["labels"]["status"]: sample["value"]
            for sample in metrics.get("topics_http_requests", {"samples": ()})["samples"]
            if sample["labels"].get("route") == "/v0/topics/<str:topic>/records"
        }

    until(lambda: counted() == {"200": 4, "404": 2}, "six counted requests")
