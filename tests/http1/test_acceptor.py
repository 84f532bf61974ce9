"""A listening socket that several servers share: each gets about as many connections as the others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from statistics import median

import pytest
import uvloop

from http1 import Request, Response, Server, Shares
from tests.deadlines import DEADLINE
from tests.http1.served import some
from tests.instances import until

ASK = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as opened:
        opened.setblocking(False)
        yield opened


@contextlib.contextmanager
def sharing(listener: socket.socket, shares: Shares, slot: int) -> Iterator[Server]:
    """A server in a thread of its own. Its answers name its slot."""

    def handler(request: Request) -> Response:
        return Response(200, [(b"slot", b"%d" % slot)])

    loop, server = uvloop.new_event_loop(), Server(handler)

    async def begin() -> None:
        server.share(listener, shares, slot)

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(begin(), loop).result(DEADLINE)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.drain(0), loop).result(DEADLINE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def opened(stack: contextlib.ExitStack, listener: socket.socket, many: int) -> list[socket.socket]:
    address = listener.getsockname()
    return [stack.enter_context(socket.create_connection(address, timeout=DEADLINE)) for _ in range(many)]


def slots(connections: list[socket.socket]) -> Counter[bytes]:
    for each in connections:
        each.sendall(ASK)
    return Counter(some(each, b"\r\n\r\n").partition(b"slot: ")[2][:1] for each in connections)


def test_a_burst_is_spread_evenly_again_and_again(listener: socket.socket) -> None:
    """Most bursts. On a busy machine a process may rest for the whole of one, and the other accepts all the same."""
    shares = Shares(2)
    most = []
    with sharing(listener, shares, 0), sharing(listener, shares, 1):
        for _ in range(15):
            with contextlib.ExitStack() as stack:
                most.append(max(slots(opened(stack, listener, 16)).values()))
    assert median(most) <= 10, most


def test_the_one_with_fewer_gets_the_next(listener: socket.socket) -> None:
    shares = Shares(2)
    with contextlib.ExitStack() as stack, sharing(listener, shares, 0):
        assert slots(opened(stack, listener, 6)) == {b"0": 6}, "one that takes none is passed by"
        until(lambda: list(shares.counts) == [6, 0], "the count of open connections")
        with sharing(listener, shares, 1):
            assert slots(opened(stack, listener, 4))[b"1"] >= 3
        stack.pop_all().close()
        until(lambda: shares.counts[0] == 0, "the count of ended connections")
