"""WebSockets through a gateway: bytes both ways, slow readers, both ends, and the end of the gateway."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import uvloop

from gateway.configuration.keys import random_seal
from gateway.server import Gateway
from http1 import Limits
from tests.deadlines import DEADLINE
from tests.gateway.running import Running, static, union
from tests.gateway.test_static import OK, head_of, raw_upstream
from tests.http1.served import rest, some, statuses
from tests.instances import until

ASK = b"GET /v0/ws HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: a\r\n\r\n"
YES = (
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: b\r\n\r\n"
)
Talk = Callable[[socket.socket], None]


@contextlib.contextmanager
def upgrading(talk: Talk, heads: list[bytes] | None = None) -> Iterator[int]:
    """A node that upgrades each connection that asks for it, and then talks as the test wants."""

    def one(connection: socket.socket) -> None:
        while b"upgrade: websocket" not in (head := head_of(connection)).lower():
            connection.sendall(OK)
        if heads is not None:
            heads.append(head)
        connection.sendall(YES)
        talk(connection)

    with raw_upstream(one) as port:
        yield port


def echo(connection: socket.socket) -> None:
    while part := connection.recv(65536):
        connection.sendall(part)


def opened(gateway: Running, sent: bytes = ASK) -> socket.socket:
    """A connection that is upgraded."""
    found = gateway.connect()
    found.sendall(sent)
    return found


def test_bytes_pass_both_ways_with_what_was_sent_behind_the_request(gateways) -> None:
    heads: list[bytes] = []
    with upgrading(echo, heads) as port:
        gateway = gateways(static(port))
        with opened(gateway, ASK + b"first") as client:
            got = some(client, b"first")
            assert statuses(got) == [101]
            assert b"sec-websocket-accept: b\r\n" in got
            for message in (b"\0\xff", b"x" * 1_000_000):
                client.sendall(message)
                echoed = b""
                while len(echoed) < len(message):
                    echoed += client.recv(65536)
                assert echoed == message
        assert b"sec-websocket-key: a\r\n" in heads[0]
        counted = gateway.client().get("/gateway/metrics").body.decode()
        assert 'operation="upgrade"' in counted


def test_each_side_may_end_first_and_the_other_gets_all_that_was_sent(gateways) -> None:
    got: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        got.append(rest(connection))
        connection.sendall(b"bye")

    with upgrading(talk) as port, opened(gateways(static(port))) as client:
        some(client, b"\r\n\r\n")
        client.sendall(b"x" * 1_000_000)
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b"bye"
        assert len(got[0]) == 1_000_000

    def leave(connection: socket.socket) -> None:
        connection.sendall(b"y" * 1_000_000)

    with upgrading(leave) as port, opened(gateways(static(port))) as client:
        assert len(rest(client).partition(b"\r\n\r\n")[2]) == 1_000_000


def test_a_side_that_breaks_off_ends_the_other(gateways) -> None:
    ended = threading.Event()

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            rest(connection)
        ended.set()

    with upgrading(talk) as port:
        client = opened(gateways(static(port)))
        some(client, b"\r\n\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        client.close()
        until(ended.is_set, "the node's side to end")


@pytest.mark.parametrize("slow", ["client", "node"])
def test_a_side_that_does_not_read_stops_the_other(gateways, slow: str) -> None:
    """Far more than all buffers hold is sent, and stays with its sender until it is read."""
    most = 64 * 1024 * 1024
    sent = [0]
    may_read = threading.Event()

    def send(connection: socket.socket) -> None:
        part = b"z" * 65536
        while sent[0] < most:
            connection.sendall(part)
            sent[0] += len(part)
        connection.shutdown(socket.SHUT_WR)

    def receive(connection: socket.socket) -> int:
        may_read.wait(DEADLINE)
        return sum(map(len, iter(lambda: connection.recv(1 << 20), b"")))

    received: list[int] = []

    def talk(connection: socket.socket) -> None:
        if slow == "client":
            send(connection)
        else:
            received.append(receive(connection))

    def is_stopped() -> bool:
        before = sent[0]
        threading.Event().wait(0.5)
        return 0 < before == sent[0]

    with upgrading(talk) as port, opened(gateways(static(port))) as client:
        head = some(client, b"\r\n\r\n")
        sender = threading.Thread(target=send, args=(client,))
        if slow == "node":
            sender.start()
        until(is_stopped, "the sender to wait")
        assert sent[0] < most / 2
        may_read.set()
        if slow == "client":
            received.append(receive(client))
            assert received[0] + len(head.partition(b"\r\n\r\n")[2]) == most
        else:
            sender.join()
            until(lambda: received, "the node to have read")
            assert received == [most]
            assert rest(client) == b""


def test_at_sigterm_a_quiet_socket_ends_and_what_was_sent_arrives(gateways) -> None:
    got: list[bytes] = []
    with upgrading(lambda connection: got.append(rest(connection))) as port:
        gateway = gateways(static(port))
        with opened(gateway) as client:
            some(client, b"\r\n\r\n")
            client.sendall(b"the last words")
            assert gateway.stop() == 0
            assert rest(client) == b""
    assert got == [b"the last words"]


def test_a_node_that_declines_answers_itself(gateways) -> None:
    def talk(connection: socket.socket) -> None:
        while True:
            head_of(connection)
            connection.sendall(b"HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\n{}")

    with raw_upstream(talk) as port, opened(gateways(static(port)), ASK + ASK) as client:
        assert statuses(some(client, b"{}" + b"HTTP/1.1 426", b"")) == [426, 426]


def test_a_router_that_would_have_to_read_frames_is_501(two_servers, gateways) -> None:
    gateway = gateways(union(two_servers[0].port, two_servers[1].port))
    for path in (b"/v0/ws", b"/node/0/v0/ws"):
        with opened(gateway, ASK.replace(b"/v0/ws", path)) as client:
            got = some(client, b"server_total_ms")
        assert statuses(got) == [501], path
        assert b"UnionRouter cannot read the frames of a WebSocket" in got


def test_a_socket_that_nobody_uses_ends(tmp_path) -> None:
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(awaitable):
        return asyncio.run_coroutine_threadsafe(awaitable, loop).result(DEADLINE)

    with upgrading(echo) as port:
        running = Running(tmp_path, static(port))
        running.write(running.configuration)

        async def serve() -> tuple[Gateway, int]:
            gateway = Gateway(running.file, random_seal(), Limits(idle_seconds=0.4))
            gateway.load()
            return gateway, await gateway.listen("127.0.0.1", 0)

        gateway, running.port = call(serve())
        try:
            with opened(running, ASK + b"x") as client:
                assert rest(client).endswith(b"x")
            until(lambda: not gateway.server.connections, "the tunnel to be forgotten")
        finally:
            call(gateway.drain(0))
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def test_a_page_of_the_gateway_may_open_a_socket(two_servers, gateways) -> None:
    gateway = gateways(static(two_servers[0].port))
    ask = ASK.replace(b"key: a", b"key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nsec-websocket-version: 13")
    host = b"127.0.0.1:%d" % gateway.port
    for origin, status in ((host, 101), (b"evil.example", 403)):
        sent = ask.replace(b"host: 127.0.0.1", b"host: %b\r\norigin: http://%b" % (host, origin))
        with opened(gateway, sent) as client:
            assert head_of(client).split(b" ")[1] == b"%d" % status
    # A hostile name that leads to this gateway, at a virtual cluster that any name can reach by its prefix.
    configuration = static(two_servers[0].port)
    configuration["virtualClusters"][0]["gateways"].append({"prefix": "/vc"})
    rebound = gateways(configuration)
    sent = ask.replace(b"host: 127.0.0.1", b"host: evil.example\r\norigin: http://evil.example")
    with opened(rebound, sent.replace(b"/v0/ws", b"/vc/v0/ws")) as client:
        assert head_of(client).split(b" ")[1] == b"403"
