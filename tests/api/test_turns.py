"""Large bodies take turns: a client above its share waits, and others go first (docs/wire.md)."""

import asyncio
import contextlib
import gzip
import json
import select
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from base.errors import Throttled
from tests.api import raw
from tests.instances import Instance, start, until
from wire.request.turns import Turns

LARGE = gzip.compress(bytes(100_000))  # zipped zeros: a key without the scope does not learn that they are no JSON
APPEND = gzip.compress(json.dumps({"records": [{"data": str(n)} for n in range(10_000)]}).encode())
KEYS = "a:read,b:read,writer:read+write,other:read+write"
MOST = 3


@pytest.fixture
def slow(instances: Callable[..., Instance]) -> Instance:
    """A server where nobody gets a second turn, because a byte takes a second."""
    return instances(
        TOPICS_API_KEYS=KEYS,
        WEB_WORKERS="1",
        TOPICS_LARGE_BODIES_RATE="1",
        TOPICS_MAX_IN_FLIGHT_PER_KEY=str(MOST),
    )


def post(path: str, key: str, body: bytes) -> bytes:
    headers = ["content-type: application/json", "content-encoding: gzip", f"content-length: {len(body)}"]
    headers += [f"authorization: Bearer {key}"] if key else []
    return raw.request("POST", path, *headers) + body


@contextlib.contextmanager
def sent(server: Instance, *requests: bytes) -> Iterator[list[socket.socket]]:
    """Sends each request on a connection of its own."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(raw.connection(server.port)) for _ in requests]
        for each, request in zip(opened, requests, strict=True):
            each.sendall(request)
        yield opened


def answered(opened: list[socket.socket]) -> list[socket.socket]:
    return select.select(opened, [], [], 0)[0]


def status(server: Instance, request: bytes) -> int:
    return raw.ask(server.port, request).status


def small(server: Instance, key: str) -> int:
    return status(server, raw.request("GET", "/v0/topics", f"authorization: Bearer {key}"))


def test_a_key_above_its_share_waits_and_another_goes_first(slow: Instance) -> None:
    assert status(slow, post("/v0/topics/x", "a", LARGE)) == 403
    with sent(slow, *[post("/v0/topics/x", "a", LARGE)] * MOST) as waiting:
        until(lambda: small(slow, "a") == 429, "the requests of the first key to wait")
        assert status(slow, post("/v0/topics/x", "b", LARGE)) == 403
        assert answered(waiting) == []
    until(lambda: small(slow, "a") == 200, "the wait of clients that are gone to end")


def test_a_large_body_waits_and_small_ones_go_first(slow: Instance) -> None:
    assert status(slow, post("/v0/topics/x", "writer", APPEND)) == 201
    with sent(slow, post("/v0/topics/x", "writer", APPEND)) as waiting:
        assert status(slow, post("/v0/topics/x", "other", APPEND)) == 200
        for body in (b'{"records":[{"data":1}]}', b'{"records":[{"data":"' + b"x" * 60_000 + b'"}]}'):
            assert status(slow, post("/v0/topics/x", "writer", gzip.compress(body))) == 200
        assert small(slow, "writer") == 200
        assert answered(waiting) == []


def test_a_plain_body_waits_before_it_is_read(slow: Instance) -> None:
    body = json.dumps({"records": [{"data": "x" * 500_000}]}).encode()
    head = raw.request("POST", "/v0/topics/x", "content-type: application/json", "authorization: Bearer writer")
    head = head[:-2] + b"content-length: %d\r\n\r\n" % len(body)
    assert status(slow, head + body) == 201
    with sent(slow, *[head] * MOST) as waiting:
        until(lambda: small(slow, "writer") == 429, "the bodies to wait")
        assert answered(waiting) == []


def test_every_refusal_of_a_large_body_takes_a_turn(slow: Instance) -> None:
    """Of a client without a key: its address is the holder."""
    assert status(slow, post("/v0/topics/x", "", LARGE)) == 401
    paths = ["/v0/topics/x", "/v0/topics/x/events", "/v0/none"]
    with sent(slow, *[post(path, "", LARGE) for path in paths]) as waiting:
        until(lambda: status(slow, post("/%ff", "", LARGE)) == 429, "the refusals to wait")
        assert answered(waiting) == []
        assert status(slow, raw.request("POST", "/v0/topics/x", "content-length: 0")) == 401


def test_a_process_that_stops_answers_who_waits() -> None:
    with start(TOPICS_API_KEYS=KEYS, TOPICS_LARGE_BODIES_RATE="1", TOPICS_MAX_IN_FLIGHT_PER_KEY="1") as server:
        assert status(server, post("/v0/topics/x", "a", LARGE)) == 403
        with sent(server, post("/v0/topics/x", "a", LARGE)) as [waiting]:
            until(lambda: small(server, "a") == 429, "the request to wait")
            assert server.process is not None
            server.process.send_signal(signal.SIGTERM)
            assert raw.answer(waiting).status == 403


# -- The line of one process -----------------------------------------------------------------------------------------


def test_a_line_is_in_order_and_ends() -> None:
    async def run() -> list[str]:
        turns, order = Turns(1_000_000_000), list[str]()

        async def take(holder: str, name: str) -> None:
            await turns.take(holder, 1)
            order.append(name)

        await turns.begin("a")
        tasks = [asyncio.create_task(take(*each)) for each in (("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3"))]
        await asyncio.sleep(0)
        assert order == ["b1"]
        tasks[1].cancel()
        turns.end("a", 1)
        await asyncio.gather(*tasks, return_exceptions=True)
        while turns.waiting:  # a holder is forgotten when its time is over
            await asyncio.sleep(0)
        return order

    assert asyncio.run(run()) == ["b1", "a1", "a3"]


def test_a_body_that_waits_too_long_gets_429() -> None:
    async def run() -> None:
        turns = Turns(1, patience_seconds=0)
        await turns.take("a", 1_000)
        with pytest.raises(Throttled) as refused:
            await turns.take("a", 1)
        assert refused.value.detail == {"limit": "large_bodies", "max": 1}
        await turns.take("b", 1_000)

    asyncio.run(run())


def test_no_rate_is_no_wait() -> None:
    async def run() -> None:
        turns = Turns(0)
        for _ in range(3):
            await turns.take("a", 1_000_000)

    asyncio.run(run())
