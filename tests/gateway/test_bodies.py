"""A gateway process holds a bounded sum of request bodies, however its requests end."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from base.bodies import Bodies
from gateway.api import (
    Filter,
    FilterContext,
    FilterFactory,
    FilterFactoryContext,
    NoConfig,
    Operation,
    Request,
    Response,
)
from gateway.bodies import HeldBody
from gateway.proxy.exchange import sendable
from gateway.testing import Running, filtering
from http1 import Body
from tests.deadlines import DEADLINE
from tests.instances import until

MOST = 1_000_000  # bytes of all bodies, in place of 256 MiB
BODY = b'{"records": [{"data": "%b"}]}' % (b"x" * 600_000)
PART = 400_000


class Reading(Filter):
    """Reads the bodies of the topic `read`, and fails then for the topic `fail`. Others pass unread."""

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        if request.topic in ("read", "fail"):
            await request.body()
        if request.topic == "fail":
            raise ZeroDivisionError
        return request

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        return response


class ReadingFactory(FilterFactory[NoConfig, NoConfig]):
    def initialize(self, context: FilterFactoryContext, config: NoConfig) -> NoConfig:
        return config

    def create_filter(self, context: FilterFactoryContext, data: NoConfig) -> Filter:
        return Reading()

    def close(self, data: NoConfig) -> None: ...


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> Bodies:
    """The bodies of the gateway of the test."""
    made = Bodies(MOST)
    monkeypatch.setattr("gateway.server.Bodies", lambda most: made)
    return made


@pytest.fixture
def gateway(bodies: Bodies) -> Iterator[Running]:
    with filtering(ReadingFactory()) as running:
        yield running


class Upload:
    """An append in parts, on a connection of its own."""

    def __init__(
        self, gateway: Running, topic: str, body: bytes = BODY, framing: bytes = b"", headers: bytes = b""
    ) -> None:
        self.body, self.socket = body, socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE)
        framing = framing or b"content-length: %d\r\n" % len(body)
        path = f"/v0/topics/{topic}".encode()
        self.socket.sendall(b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\n%b%b\r\n" % (path, framing, headers))

    def send(self, size: int) -> None:
        part, self.body = self.body[:size], self.body[size:]
        self.socket.sendall(part)

    def status(self) -> int:
        """Sends the rest, and returns the status of the answer."""
        self.send(len(self.body))
        return int(self.socket.recv(65536).split()[1])

    def leave(self) -> None:
        """Ends the connection without another word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


def test_a_body_beyond_the_bound_is_refused_and_reaches_no_server(gateway: Running, bodies: Bodies) -> None:
    server = gateway.servers["one"]
    with closing(Upload(gateway, "read")) as first, closing(Upload(gateway, "read")) as second:
        for each in (first, second):
            each.send(PART)
        until(lambda: bodies.bytes == 2 * PART, "the parts to be held")
        refused = gateway.call("POST", "/v0/topics/read", "x" * PART)
        assert (refused.status, refused.header(b"retry-after")) == (429, b"1")
        error = asyncio.run(refused.decoded())["error"]
        assert (error["code"], error["detail"]) == ("throttled", {"limit": "bodies_bytes", "max": MOST})
        assert bodies.bytes == 2 * PART
        assert server.requests == []
        assert gateway.call("POST", "/v0/topics/read", "x").status == 200  # there is room for it
        second.leave()
        until(lambda: bodies.bytes == PART, "the end of the second")
        assert gateway.call("POST", "/v0/topics/read", "x" * PART).status == 200
        assert first.status() == 200
    assert server.requests[-1].raw_body == BODY
    until(lambda: bodies.bytes == 0, "the end of all")


def test_a_small_body_counts_too_once_it_is_unzipped(gateway: Running, bodies: Bodies) -> None:
    zipped = gzip.compress(b'"%b"' % (b"x" * MOST), 1)
    with closing(Upload(gateway, "read", zipped, headers=b"content-encoding: gzip\r\n")) as upload:
        assert upload.status() == 429
    assert gateway.servers["one"].requests == []
    assert bodies.bytes == 0


def finished(upload: Upload) -> None:
    assert upload.status() == 200


def left(upload: Upload) -> None:
    upload.leave()


@pytest.mark.parametrize("topic", ["read", "pass"])
@pytest.mark.parametrize("end", [finished, left])
def test_nothing_is_counted_of_a_request_that_has_ended(
    gateway: Running, bodies: Bodies, topic: str, end: Callable[[Upload], None]
) -> None:
    with closing(Upload(gateway, topic)) as upload:
        upload.send(PART)
        until(lambda: bodies.bytes == PART, "the part to be held")
        end(upload)
        until(lambda: bodies.bytes == 0, "the end")


def test_nothing_is_held_for_a_repeat_once_there_is_an_answer(bodies: Bodies) -> None:
    body = Body(None, None)
    request = Request("POST", "/v0/topics/pass", body=body, held=HeldBody(bodies))

    async def main() -> None:
        with sendable(request) as sent:
            assert not isinstance(sent, bytes)
            parts = aiter(sent)
            body.feed(b"first")
            assert await anext(parts) == b"first"
            assert bodies.bytes == 5
        assert bodies.bytes == 0
        body.feed(b"second")
        assert await anext(parts) == b"second"
        assert bodies.bytes == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("topic", "body", "framing", "status"),
    [
        ("fail", BODY, b"", 502),
        ("read", b"5\r\nabcde\r\nno chunk\r\n", b"transfer-encoding: chunked\r\n", 400),
        ("read", b"no gzip", b"content-length: 7\r\ncontent-encoding: gzip\r\n", 400),
        ("read", b"x" * 7, b"content-length: 7\r\ncontent-encoding: br\r\n", 415),
        ("read/diff", b"x", b"content-length: 2000000\r\n", 413),
    ],
)
def test_nothing_is_counted_of_a_request_that_was_refused(
    gateway: Running, bodies: Bodies, topic: str, body: bytes, framing: bytes, status: int
) -> None:
    with closing(Upload(gateway, topic, body, framing)) as upload:
        assert upload.status() == status
    until(lambda: bodies.bytes == 0, "the end")


def test_a_body_that_nothing_reads_passes_beside_others_beyond_the_bound(gateway: Running, bodies: Bodies) -> None:
    with closing(Upload(gateway, "read")) as held, closing(Upload(gateway, "pass")) as passing:
        held.send(PART)
        until(lambda: bodies.bytes == PART, "the part to be held")
        with closing(Upload(gateway, "read", b"x" * MOST)) as other:
            other.send(MOST - PART - 1)
            until(lambda: bodies.bytes == MOST - 1, "the bound to be reached")
            passing.send(PART)
            assert passing.status() == 200
            assert bodies.bytes == MOST - 1
    assert [each.raw_body for each in gateway.servers["one"].requests] == [BODY]


def test_only_a_body_that_can_be_sent_again_is_held_while_it_passes(
    gateway: Running, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.proxy.exchange.REPLAYED_BYTES", PART)
    with closing(Upload(gateway, "pass")) as upload:
        upload.send(PART)
        until(lambda: bodies.bytes == PART, "the part to be held")
        upload.send(1)
        until(lambda: bodies.bytes == 0, "the part to be given up")
        assert upload.status() == 200
    assert [each.raw_body for each in gateway.servers["one"].requests] == [BODY]
