"""Connections whose bytes pass unparsed: framing, failures, and answers of the gateway itself."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.configuration.keys import random_seal
from gateway.server import Gateway
from http1 import Limits
from tests.deadlines import DEADLINE
from tests.gateway.running import Running, static
from tests.instances import free_port, until

GET = b"GET /v0/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def statuses(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


def read(opened: socket.socket, number: int) -> bytes:
    got = b""
    while got.count(b"HTTP/1.1 ") < number or not got.endswith(b"}"):
        part = opened.recv(65536)
        if not part:
            break
        got += part
    return got


@pytest.fixture
def gateway(two_servers, gateways) -> Running:
    return gateways(static(two_servers[0].port))


def mode_counts(gateway: Running) -> dict[str, float]:
    client = gateway.client()
    return {mode: client.metric("topics_gateway_requests_total", mode=mode) or 0 for mode in ("static", "dynamic")}


def test_requests_pass_unparsed_and_are_counted(gateway, name: str) -> None:
    client = gateway.client()
    for number in range(5):
        assert client.append(name, number).status in (200, 201)
    assert client.post(f"/v0/topics/{name}/diff", {}).json["head_seq"] == 5
    assert mode_counts(gateway) == {"static": 6, "dynamic": 0}


def test_pipelined_requests_are_answered_in_order(gateway, name: str) -> None:
    client = gateway.client()
    client.append(name, "x")
    one = f"GET /v0/topics/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
    with gateway.connect() as opened:
        opened.sendall((one + GET) * 20)
        got = read(opened, 40)
    assert statuses(got) == [200] * 40
    answers = got.split(b"HTTP/1.1 ")[1:]
    assert [b'"topic"' in each for each in answers] == [True, False] * 20


def test_a_request_may_be_split_at_every_byte(gateway, name: str) -> None:
    body = b'{"records":[{"data":1}]}'
    request = (
        f"POST /v0/topics/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body
    for place in range(1, len(request)):
        with gateway.connect() as opened:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.sendall(request[:place])
            opened.sendall(request[place:] + GET)
            assert [status // 100 for status in statuses(read(opened, 2))] == [2, 2], place
    assert gateway.client().get(f"/v0/topics/{name}").json["count"] == len(request) - 1


def test_the_gateways_own_pages_are_on_the_same_connection(gateway, name: str) -> None:
    client = gateway.client()
    assert client.get("/v0/health").status == 200
    assert client.get("/gateway/health").json["status"] == "ready"
    assert client.get("/v0/nodes").json["nodes"][0]["id"] == 0
    assert client.get("/v0/health").status == 200
    with gateway.connect() as opened:
        opened.sendall(GET + b"GET /gateway/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + GET)
        assert statuses(read(opened, 3)) == [200] * 3


def test_another_host_is_not_served_on_a_connection_that_was(gateway) -> None:
    with gateway.connect() as opened:
        opened.sendall(GET + GET.replace(b"127.0.0.1", b"elsewhere"))
        assert statuses(read(opened, 2)) == [200, 404]


def test_an_unknown_method_is_501_and_ends_the_connection(gateway) -> None:
    strange = b"BREW /v0/topics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    for sent, wanted in ((strange, [501]), (GET + strange + GET, [200, 501])):
        with gateway.connect() as opened:
            opened.sendall(sent)
            got = read(opened, len(wanted))
        assert statuses(got) == wanted
        assert b"connection: close\r\n" in got


def test_options_of_the_server_name_the_methods(gateway) -> None:
    with gateway.connect() as opened:
        opened.sendall(b"OPTIONS * HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + GET)
        got = read(opened, 2)
    assert statuses(got) == [204, 200]
    assert b"allow: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\n" in got


@pytest.mark.parametrize(
    "shape",
    [
        b"POST /v0/topics/x HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"POST /v0/topics/x HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
        b"POST /v0/topics/x HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length : 3\r\n\r\nabc",
        b"GET /v0/health HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a\r\n b\r\n\r\n",
        b"GET /v0/health HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /v0/health HTTP/1.1\nhost: 127.0.0.1\n\n",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(gateway, shape: bytes) -> None:
    with gateway.connect() as opened:
        opened.sendall(GET + shape + GET)
        assert statuses(read(opened, 3)) == [200, 400]


# -- Upstreams that fail -----------------------------------------------------------------------------------------------

Talk = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@contextlib.contextmanager
def raw_upstream(talk: Talk, port: int = 0) -> Iterator[int]:
    """A server that says what the test wants on each connection, in a thread of its own."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", port)))
        connections: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def one(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError, EOFError):
                talk(connection)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connections.append(listener.accept()[0])
                    threads.append(threading.Thread(target=one, args=(connections[-1],)))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:  # a test that fails ends, too
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def head_of(connection: socket.socket) -> bytes:
    """The next head; tests send requests without bodies where it matters. Raises EOFError."""
    got = b""
    while b"\r\n\r\n" not in got:
        part = connection.recv(65536)
        if not part:
            raise EOFError
        got += part
    return got


def asked(connection: socket.socket) -> bytes:
    """Answers probes. Returns the first other head."""
    while b"/v0/ready" in (head := head_of(connection)):
        connection.sendall(OK)
    return head


def test_an_upstream_that_ends_the_connection_is_502(gateways) -> None:
    def talk(connection: socket.socket) -> None:
        asked(connection)

    with raw_upstream(talk) as port:
        refused = gateways(static(port)).client().append("x", 1)
    assert (refused.status, refused.code) == (502, "node_unreachable")
    assert refused.json["error"]["detail"]["maybe_written"] is True


def test_one_that_is_silent_is_504(gateways) -> None:
    def talk(connection: socket.socket) -> None:
        asked(connection)
        head_of(connection)

    with raw_upstream(talk) as port:
        gateway = gateways(static(port, timeouts={"answerMs": 300}))
        refused = gateway.client().append("x", 1)
        client = gateway.client()
        assert client.metric("topics_gateway_failures_total", virtual_cluster="all", kind="timeout") == 1
        assert client.metric("topics_gateway_errors_total", operation="append", mode="static") == 1
    assert (refused.status, refused.code) == (504, "timeout")


def test_half_an_answer_never_looks_whole(gateways) -> None:
    def talk(connection: socket.socket) -> None:
        asked(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")

    with raw_upstream(talk) as port, gateways(static(port)).connect() as opened:
        opened.sendall(GET)
        got = b""
        with contextlib.suppress(ConnectionError):
            while part := opened.recv(65536):
                got += part
    assert got in (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", b"")  # a reset may take it along


def test_no_node_at_all_is_502_and_one_that_comes_back_is_used(gateways) -> None:
    port = free_port()
    gateway = gateways(static(port))
    refused = gateway.client().get("/v0/health")
    assert (refused.status, refused.code) == (502, "node_unreachable")

    def talk(connection: socket.socket) -> None:
        while True:
            head_of(connection)
            connection.sendall(OK)

    with raw_upstream(talk, port):
        until(lambda: gateway.client().get("/v0/health").status == 200, "the node to be used again")
        until(lambda: gateway.health() == "ready", "the gateway to say so")


def test_a_request_on_a_kept_connection_that_had_ended_is_sent_again_if_it_is_safe(gateways) -> None:
    heads: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        while True:
            heads.append(asked(connection))
            if len(heads) == 2:
                return  # without a word
            connection.sendall(OK)

    with raw_upstream(talk) as port:
        client = gateways(static(port)).client()
        assert [client.get(f"/v0/topics/{number}").status for number in range(3)] == [200] * 3
    assert len(heads) == 4


def test_an_append_with_a_key_whose_answer_was_lost_is_sent_again(gateways) -> None:
    keys: list[bool] = []

    def talk(connection: socket.socket) -> None:
        head = asked(connection)
        keys.append(b"idempotency-key: k-1" in head.lower())
        if len(keys) > 1:
            connection.sendall(OK)
            connection.recv(1)

    with raw_upstream(talk) as port:
        client = gateways(static(port)).client()
        assert client.append("x", 1, node="n").status == 502
        keys.clear()
        sent = client.call("POST", "/v0/topics/x", {"records": [{"data": 1}]}, idempotency_key="k-1")
    assert (sent.status, keys) == (200, [True, True])


def test_a_request_is_sent_again_although_its_body_comes_later(gateways) -> None:
    """Most clients send a body in a packet of its own, and the node can end the connection before that."""
    bodies: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        bodies.append(asked(connection).partition(b"\r\n\r\n")[2])
        if len(bodies) > 1:
            while len(bodies[-1]) < 4:
                bodies[-1] += connection.recv(4)
            connection.sendall(OK)
            connection.recv(1)

    ask = b"POST /v0/topics/x HTTP/1.1\r\nhost: 127.0.0.1\r\nidempotency-key: k\r\ncontent-length: 4\r\n\r\n"
    with raw_upstream(talk) as port, gateways(static(port)).connect() as opened:
        opened.sendall(ask)
        until(lambda: len(bodies) == 2, "the request to be sent again")
        opened.sendall(b"body")
        assert statuses(opened.recv(65536)) == [200]
    assert bodies == [b"", b"body"]


@pytest.mark.parametrize("last", [GET, b"GET /gateway/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"])
def test_a_client_that_sends_no_more_gets_its_answers_and_then_the_end(gateway, last: bytes) -> None:
    with gateway.connect() as opened:
        opened.sendall(GET + last)
        opened.shutdown(socket.SHUT_WR)
        got = b""
        while part := opened.recv(65536):
            got += part
    assert statuses(got) == [200, 200]


def test_a_repeat_sends_its_own_request_alone(gateways, name: str) -> None:
    """The second request of the packet is for another virtual cluster, whose filter refuses it."""
    heads: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        while True:
            heads.append(asked(connection))
            if len(heads) == 2:
                return  # the kept connection ends without an answer
            connection.sendall(OK)

    with raw_upstream(talk) as port:
        configuration = static(port)
        configuration["filterDefinitions"] = [
            {"name": "closed", "type": "Deny", "config": {"rules": [{"operations": ["writes"]}]}}
        ]
        configuration["virtualClusters"].append(
            {
                "name": "closed",
                "gateways": [{"host": "closed"}],
                "filters": ["closed"],
                "target": {"router": "as-it-is"},
            }
        )
        gateway = gateways(configuration)
        with gateway.connect() as opened:
            opened.sendall(GET)
            assert statuses(read(opened, 1)) == [200]
            delete = f"DELETE /v0/topics/{name} HTTP/1.1\r\nhost: closed\r\nauthorization: Bearer x\r\n\r\n".encode()
            opened.sendall(GET + delete)
            assert statuses(read(opened, 2)) == [200, 403]
    assert heads == [GET[:-2] + b"x-forwarded-for: 127.0.0.1\r\nx-forwarded-proto: http\r\n\r\n"] * 3


def test_pipelined_appends_keep_their_order_behind_a_filter(two_servers, gateways, name: str) -> None:
    configuration = static(two_servers[0].port)
    configuration["filterDefinitions"] = [{"name": "audit", "type": "Audit"}]
    configuration["virtualClusters"][0]["filters"] = ["audit"]
    bodies = [b'{"records":[{"data":%d}]}' % number for number in range(60)]
    head = f"POST /v0/topics/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n".encode()
    gateway = gateways(configuration)
    with gateway.connect() as opened:
        opened.sendall(b"".join(head + b"content-length: %d\r\n\r\n" % len(body) + body for body in bodies))
        answers = statuses(read(opened, len(bodies)))
    assert [status // 100 for status in answers] == [2] * len(bodies)
    records = gateway.client().post(f"/v0/topics/{name}/diff", {}).json["records"]
    assert [each["data"] for each in records] == list(range(len(bodies)))


# -- Slow clients, and the ends of answers -----------------------------------------------------------------------------


def body_of(connection: socket.socket, size: int) -> None:
    while size:
        size -= len(connection.recv(min(size, 65536)) or b"x" * size)


def failures(gateway: Running) -> float | None:
    return gateway.client().metric("topics_gateway_failures_total")


def test_the_limit_of_an_answer_begins_when_the_request_was_sent(gateways) -> None:
    size = 40_000

    def talk(connection: socket.socket) -> None:
        while True:
            body_of(connection, size - len(asked(connection).partition(b"\r\n\r\n")[2]))
            connection.sendall(OK)

    post = b"POST /v0/topics/x HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % size
    with raw_upstream(talk) as port:
        gateway = gateways(static(port, timeouts={"answerMs": 1000}))
        with gateway.connect() as opened:
            opened.sendall(post)
            for _ in range(40):  # for four times the limit
                opened.sendall(b"x" * (size // 40))
                time.sleep(0.1)
            assert statuses(read(opened, 1)) == [200]
        assert failures(gateway) is None


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """`embedded(configuration, limits)` serves a gateway with other limits, in a thread of this process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    begun: list[Gateway] = []
    runnings: list[Running] = []

    def call(awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, loop).result(DEADLINE)

    def begin(configuration: dict[str, Any], limits: Limits) -> Running:
        running = Running(tmp_path, configuration)
        running.write(configuration)

        async def serve() -> int:
            begun.append(Gateway(running.file, random_seal(), limits))
            begun[0].load()
            return await begun[0].listen("127.0.0.1", 0)

        running.port = call(serve())
        runnings.append(running)
        return running

    yield begin
    for client in [each for running in runnings for each in running.clients]:
        client.close()
    for gateway in begun:
        call(gateway.drain(0))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_client_that_stops_in_a_body_is_refused_and_its_node_is_not_blamed(embedded) -> None:
    def talk(connection: socket.socket) -> None:
        asked(connection)
        connection.recv(1)

    with raw_upstream(talk) as port:
        gateway = embedded(static(port), Limits(upload_grace_seconds=0.4))
        for _ in range(4):  # three failures open the breaker
            with gateway.connect() as opened:
                opened.sendall(b"POST /v0/topics/x HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n")
                got = read(opened, 1)
            assert statuses(got) == [400]
            assert b"arrived too slowly" in got
        assert failures(gateway) is None


def test_a_slow_reader_gets_its_answers_and_its_node_is_not_blamed(gateways) -> None:
    body = b"x" * 8_000_000

    def talk(connection: socket.socket) -> None:
        while True:
            asked(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            asked(connection)
            connection.sendall(OK)

    with raw_upstream(talk) as port:
        gateway = gateways(static(port, timeouts={"answerMs": 1000}))
        with gateway.connect() as opened:
            opened.sendall(GET)
            time.sleep(3)  # three times the limit
            opened.sendall(GET)
            got = b""
            while not got.endswith(OK):
                got += opened.recv(1 << 20)
        assert statuses(got) == [200, 200]
        assert failures(gateway) is None
        assert gateway.client().get("/v0/health").status == 200


def test_a_connection_that_a_slow_reader_leaves_is_read_for_the_next_client(gateways) -> None:
    opened_connections: list[socket.socket] = []
    large = b"x" * 700_000  # above what the gateway holds for a slow reader

    def talk(connection: socket.socket) -> None:
        while True:
            head = asked(connection)
            opened_connections.append(connection)
            body = large if b"/slow" in head else b"{}"
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    with raw_upstream(talk) as port:
        gateway = gateways(static(port, timeouts={"answerMs": 1000}))
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                opened = stack.enter_context(gateway.connect())
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                opened.sendall(GET.replace(b"/v0/health", b"/v0/topics/slow"))
            until(lambda: len(opened_connections) >= 4, "the nodes to answer")
            client = gateway.client()
            assert [client.get(f"/v0/topics/{number}").status for number in range(8)] == [200] * 8
        assert failures(gateway) is None


def test_a_piece_of_a_chunked_answer_that_looks_like_its_end_does_not_end_it(gateways) -> None:
    others: list[int] = []

    def talk(connection: socket.socket) -> None:
        while True:
            if b"/chunked" not in asked(connection):
                connection.sendall(OK)
                continue
            connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n1\n10\r\n\r\n")
            connection.sendall(b"5\r\n0\r\n\r\n\r\n")
            until(lambda: others, "another request")
            connection.sendall(b"3\r\nend\r\n0\r\n\r\n")

    with raw_upstream(talk) as port:
        gateway = gateways(static(port))
        with gateway.connect() as opened:
            opened.sendall(GET.replace(b"/v0/health", b"/v0/topics/chunked"))
            got = b""
            while b"5\r\n0\r\n\r\n\r\n" not in got:
                got += opened.recv(65536)
            try:
                assert gateway.client().get("/v0/health").body == b"{}"  # on another connection
            finally:
                others.append(1)
            while not got.endswith(b"3\r\nend\r\n0\r\n\r\n"):
                part = opened.recv(65536)
                assert part, got
                got += part


def test_an_answer_without_a_length_ends_with_its_connection(gateways) -> None:
    def talk(connection: socket.socket) -> None:
        asked(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n0\r\n\r\nmore")

    with raw_upstream(talk) as port, gateways(static(port)).connect() as opened:
        opened.sendall(GET)
        got = b""
        while part := opened.recv(65536):
            got += part
    assert got.endswith(b"0\r\n\r\nmore")
