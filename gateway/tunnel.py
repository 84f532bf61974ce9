"""Connections that were upgraded, such as WebSockets: bytes between a client and one node, unread, with back pressure both ways.

If one side does not read, the other side is not read. If one side ends, the other gets the bytes before that end, and then ends.
A tunnel ends if no byte passes for `idle_seconds`. Once the gateway ends, a tunnel ends as soon as it is quiet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from http1 import Answer, Request, Upgrade
from http1.deadlines import NEVER

if TYPE_CHECKING:
    from gateway.api import Response
    from gateway.server import Gateway

MOST_WRITTEN = 256 * 1024  # bytes that wait for a slow reader
QUIET_SECONDS = 0.5  # without a byte, until a tunnel ends that has to
Taken = tuple[asyncio.Transport, bytes]  # a socket, and the bytes that were read from it before
TAKE_SECONDS = 10.0  # until the client's socket is there: it may have gone meanwhile


def is_websocket(received: Request) -> bool:
    return received.is_upgrade and (received.header(b"upgrade") or b"").strip().lower() == b"websocket"


class Upgraded:
    """The body of an answer with status 101: the node's socket."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.giving_up = asyncio.get_running_loop().call_later(TAKE_SECONDS, answer.close)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.answer.close()

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        self.giving_up.cancel()
        return self.answer.take_over()


def upgrade(gateway: Gateway, received: Request, response: Response, node: Upgraded) -> Upgrade:
    """Returns the answer that joins the two sockets."""

    def take_over(client: asyncio.Transport, sent: bytes) -> None:
        Tunnel(gateway, received.state, (client, sent), node.take_over())

    return Upgrade([*response.headers, (b"connection", b"Upgrade"), (b"upgrade", b"websocket")], take_over)


class Tunnel:
    """Two sockets. A member of the gateway's server (http1.server.Member) until both ended."""

    def __init__(self, gateway: Gateway, state: dict[str, Any], client: Taken, node: Taken) -> None:
        self.gateway, self.state, self.server = gateway, state, gateway.server
        self.loop = asyncio.get_running_loop()
        self.deadline = NEVER
        self.unwritten = 0
        self.sides = Side(self, client[0]), Side(self, node[0])
        self.sides[0].other, self.sides[1].other = self.sides[1], self.sides[0]
        self.server.connections.add(self)
        self.server.deadlines.add(self)
        for side in self.sides:
            side.transport.set_protocol(side)
            side.transport.set_write_buffer_limits(MOST_WRITTEN)
        self.mark()
        for side, first in zip(self.sides, (client[1], node[1]), strict=True):
            side.begin(first)

    def mark(self) -> None:
        """A byte passed, or a reader became slow or quick."""
        if any(side.is_slow for side in self.sides):
            self.unwritten = self.waiting()
            self.deadline = self.loop.time() + self.server.limits.write_seconds
        else:
            seconds = QUIET_SECONDS if self.server.draining else self.server.limits.idle_seconds
            self.deadline = self.loop.time() + seconds

    def expire(self, now: float) -> None:
        """Nothing passed in time: a reader that takes nothing is cut, a quiet tunnel ends."""
        left = self.waiting()
        if left and left < self.unwritten:  # slow, but it reads
            self.unwritten, self.deadline = left, now + self.server.limits.write_seconds
        elif left or any(side.is_lost for side in self.sides):
            self.abort()
        else:
            for side in self.sides:
                side.close()

    def waiting(self) -> int:
        """Bytes that the two readers have not taken yet."""
        return sum(side.transport.get_write_buffer_size() for side in self.sides if not side.is_lost)

    def drain(self) -> None:
        self.mark()

    def abort(self) -> None:
        for side in self.sides:
            side.transport.abort()

    def ended(self) -> None:
        """A side ended: the other ends behind the bytes that are due to it."""
        for side in self.sides:
            side.close()
        if all(side.is_lost for side in self.sides):
            self.server.connections.discard(self)
            self.server.deadlines.discard(self)
            self.gateway.closed(self.state)
        else:
            self.unwritten = self.waiting()
            self.deadline = self.loop.time() + self.server.limits.write_seconds


class Side(asyncio.Protocol):
    """One socket of a tunnel. `is_slow`: it does not take what is written to it."""

    other: Side

    def __init__(self, tunnel: Tunnel, transport: asyncio.Transport) -> None:
        self.tunnel, self.transport = tunnel, transport
        self.is_slow = self.is_lost = self.has_ended = False

    def begin(self, first: bytes) -> None:
        """Pass on the bytes that were read before."""
        if first:
            self.other.transport.write(first)
        if self.transport.is_closing():
            # It ended before it had this protocol, which is not told of it.
            self.tunnel.loop.call_soon(self.connection_lost, None)

    def data_received(self, data: bytes) -> None:
        if not self.other.is_lost:
            self.other.transport.write(data)
            if not (self.is_slow or self.other.is_slow):
                self.tunnel.mark()

    def pause_writing(self) -> None:
        self.is_slow = True
        if not self.other.is_lost:
            self.other.transport.pause_reading()
        self.tunnel.mark()

    def resume_writing(self) -> None:
        self.is_slow = False
        if not self.other.is_lost and not self.other.has_ended:
            self.other.transport.resume_reading()
        self.tunnel.mark()

    def eof_received(self) -> bool:
        """This side sends no more. It may still read, where both sockets can be ended one way at a time."""
        self.has_ended = True
        is_half_open = all(side.transport.can_write_eof() for side in self.tunnel.sides)  # not with TLS
        if self.other.is_lost or self.other.has_ended or not is_half_open:
            return False
        self.other.transport.write_eof()
        self.tunnel.mark()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = self.has_ended = True
            self.is_slow = False
            self.tunnel.ended()

    def close(self) -> None:
        """End behind what is written."""
        if not self.is_lost:
            self.transport.close()
