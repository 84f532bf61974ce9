"""The server's side: a `Server` with a handler, and its connections."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from http1.acceptor import Acceptor, Shares
from http1.connection import SPARE, Connection, ServedConnection
from http1.deadlines import Deadlines
from http1.errors import Refused
from http1.handlers import Handler
from http1.limits import Limits
from http1.messages import Response

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
        self.listeners: list[asyncio.Server] = []
        self.acceptor: Acceptor | None = None
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
        if self.acceptor is not None:
            self.acceptor.count()

    def leave(self, member: ServedConnection) -> None:
        """Note the end of a connection."""
        self.connections.discard(member)
        self.deadlines.discard(member)
        if self.acceptor is not None:
            self.acceptor.count()

    def share(self, listener: socket.socket, shares: Shares, slot: int) -> None:
        """Listen on a socket together with other processes (acceptor.py). `slot`: of this process in `shares`."""
        self.acceptor = Acceptor(listener, self.protocol, self.spare, lambda: len(self.connections), shares, slot)

    async def listen(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        sock: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
        factory: Callable[[], asyncio.BaseProtocol] | None = None,
        backlog: int = 1024,
    ) -> int:
        """Listen on an address that several processes can share (SO_REUSEPORT), or on an open socket. Returns the port.

        `factory` makes the protocol of a connection, instead of `protocol`.
        """
        loop = asyncio.get_running_loop()
        make = factory or self.protocol
        if sock is not None:
            listener = await loop.create_server(make, sock=sock, ssl=tls, backlog=backlog)
        else:
            listener = await loop.create_server(make, host, port, ssl=tls, reuse_port=True, backlog=backlog)
        self.listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def drain(self, seconds: float) -> bool:
        """Stop listening, end idle connections, and let requests finish. After `seconds`, cut off the other connections.

        Returns whether all connections ended in time.
        """
        self.draining = True
        for listener in self.listeners:
            listener.close()
        if self.acceptor is not None:
            self.acceptor.close()
        for connection in list(self.connections):
            connection.drain()
        deadline = asyncio.get_running_loop().time() + seconds
        while self.connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        finished = not self.connections
        for connection in list(self.connections):
            connection.abort()
        return finished
