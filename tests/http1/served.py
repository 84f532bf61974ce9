"""A server of http1 in a thread of its own, and raw connections to it."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psutil
import uvloop

from http1 import Limits, Request, Response, Server
from tests.deadlines import DEADLINE
from tests.instances import until

TEXT = [(b"content-type", b"text/plain")]


class Served:
    """A running server. `call` runs a function in its loop."""

    def __init__(self, handler: Callable[[Request], Any], limits: Limits | None = None) -> None:
        self.server = Server(handler, limits=limits)
        self.loop = uvloop.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.ports: list[int] = []
        self.port = self.listen()

    def listen(self, tls: ssl.SSLContext | None = None) -> int:
        """Listen on one more port, and return it."""
        self.ports.append(self.call(self.server.listen(tls=(lambda: tls) if tls is not None else None)))
        return self.ports[-1]

    def call(self, awaitable: Any, seconds: float = DEADLINE) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self.loop).result(seconds)

    def later(self, seconds: float) -> None:
        """The server looks at its deadlines as it does when so many seconds have passed."""

        async def look() -> None:
            now = self.loop.time() + seconds
            for each in [each for each in self.server.connections if each.deadline <= now]:
                each.expire(now)

        self.call(look())

    def stop(self) -> None:
        self.call(self.server.drain(0))
        # A client may be in a TLS handshake, which the server does not know yet. uvloop complains of a loop that closes then.
        until(lambda: not self.has_connections(), "the clients to end their connections")
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def has_connections(self) -> bool:
        """Returns whether this process holds a connection of a client, in any state."""
        return any(each.laddr.port in self.ports for each in psutil.Process().net_connections("tcp"))

    @contextlib.contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE) as opened:
            yield opened

    def exchange(self, sent: bytes, *, half_close: bool = False) -> bytes:
        """Everything that is answered until the server ends the connection."""
        with self.connection() as opened:
            opened.sendall(sent)
            if half_close:
                opened.shutdown(socket.SHUT_WR)
            return rest(opened)


def rest(opened: socket.socket) -> bytes:
    """Everything that comes until the other side ends the connection."""
    got = b""
    while part := opened.recv(65536):
        got += part
    return got


def some(opened: socket.socket, until: bytes, got: bytes = b"") -> bytes:
    """What comes, up to and with `until`."""
    while until not in got:
        part = opened.recv(65536)
        assert part, got
        got += part
    return got


def statuses(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


async def echo(request: Request) -> Response:
    body = await request.body.read()
    text = b"%b %b %b" % (request.method.encode(), request.target, body)
    return Response(200, TEXT, text)


def at_once(request: Request) -> Response:
    return Response(200, TEXT, request.method.encode())


async def parts(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


Handler = Callable[[Request], Response | Awaitable[Response]]
