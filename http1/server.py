"""The server's side: a `Server` with a handler, and its connections."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from http1.acceptor import Acceptor, Shares, TlsContexts
from http1.connection import SPARE, Connection, ServedConnection
from http1.deadlines import Deadlines
from http1.errors import Refused
from http1.handlers import Handler
from http1.limits import Limits
from http1.messages import Response

BACKLOG = 1024  # connections that wait for a process to accept them
SPARE_SECONDS = 2.0  # for the head of a spare connection


def plain_error(error: Refused) -> Response:
    body = json.dumps(error.body()).encode()
    return Response(error.status, [(b"content-type", b"application/json")], body)


class Server:
    """Connections with one handler. `on_error` renders a refusal of the HTTP layer. `limits` apply to each connection."""

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits | None = None,
        on_error: Callable[[Refused], Response] = plain_error,
        on_close: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """`on_close` is called with the `state` of each connection that ended."""
        self.handler, self.limits, self.on_error, self.on_close = handler, limits or Limits(), on_error, on_close
        self.connections: set[ServedConnection] = set()
        self.draining = False
        self.listeners: list[socket.socket] = []  # that are this server's own
        self.acceptors: list[Acceptor] = []
        times = self.limits.head_seconds, self.limits.idle_seconds, self.limits.upload_grace_seconds
        self.deadlines = Deadlines(min(1.0, min(times) / 4))

    def protocol(self) -> Connection:
        return Connection(self, self.limits, {})

    def spare(self) -> Connection:
        """Returns a connection of one answer, whose client has little time. Its requests have SPARE in their `state`."""
        limits = replace(self.limits, head_seconds=SPARE_SECONDS, idle_seconds=SPARE_SECONDS)
        return Connection(self, limits, {SPARE: True})

    def enter(self, member: ServedConnection) -> None:
        """Note a new connection."""
        self.connections.add(member)
        self.deadlines.add(member)
        for acceptor in self.acceptors:
            acceptor.count()

    def leave(self, member: ServedConnection) -> None:
        """Note the end of a connection."""
        self.connections.discard(member)
        self.deadlines.discard(member)
        for acceptor in self.acceptors:
            acceptor.count()

    def share(self, listener: socket.socket, shares: Shares, slot: int) -> None:
        """Listen on a socket together with other processes (acceptor.py). `slot`: of this process in `shares`."""
        self.accept(listener, self.protocol, shares, slot)

    async def listen(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        sock: socket.socket | None = None,
        tls: TlsContexts | None = None,
        factory: Callable[[], asyncio.BaseProtocol] | None = None,
    ) -> int:
        """Listen on an address that several processes can share (SO_REUSEPORT), or on a bound socket. Returns the port. Raises
        OSError.

        `factory` makes the protocol of a connection, instead of `protocol`. `tls` returns the TLS context of a connection.
        """
        opened = [sock] if sock is not None else await bound(host, port)
        for each in opened:
            each.listen(BACKLOG)
            each.setblocking(False)
            self.listeners.append(each)
            self.accept(each, factory or self.protocol, Shares(1), 0, tls)
        return int(opened[0].getsockname()[1])

    def accept(
        self,
        listener: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        shares: Shares,
        slot: int,
        tls: TlsContexts | None = None,
    ) -> None:
        acceptor = Acceptor(listener, factory, self.spare, lambda: len(self.connections), shares, slot, tls)
        self.acceptors.append(acceptor)

    async def drain(self, seconds: float) -> bool:
        """Stop listening, end idle connections, and let requests finish. After `seconds`, cut off the other connections.

        Returns whether all connections ended in time.
        """
        self.draining = True
        while self.acceptors:
            self.acceptors.pop().close()
        while self.listeners:
            self.listeners.pop().close()
        for connection in list(self.connections):
            connection.drain()
        deadline = asyncio.get_running_loop().time() + seconds
        while self.connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        finished = not self.connections
        for connection in list(self.connections):
            connection.abort()
        return finished


async def bound(host: str, port: int) -> list[socket.socket]:
    """Returns a socket for each address of a host. Other processes can bind the same address. Raises OSError."""
    opened: list[socket.socket] = []
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            opened.append(socket.socket(family, kind, protocol))
            opened[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:  # otherwise `::` would also take the addresses of IPv4
                opened[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened[-1].bind(address)
    except OSError:
        for each in opened:
            each.close()
        raise
    return opened
