"""Upgraded connections, such as WebSockets: passes bytes between a client and one node, unparsed, with back pressure both ways.

If one side stops reading, the tunnel stops reading the other side. If one side ends, the other side gets all earlier bytes, and
then ends. A tunnel ends if no byte passes for `idle_seconds`. When the gateway stops, or the way of the tunnel has changed, the
tunnel ends after 0.5 s without a byte, because the gateway does not know where a frame ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from gateway.proxy import streams
from http1 import Answer, Request, Upgrade
from http1.deadlines import NEVER
from http1.server import Server

if TYPE_CHECKING:
    from gateway.api import Response

MOST_WRITTEN = 256 * 1024  # bytes that wait for a slow reader
QUIET_SECONDS = 0.5  # without a byte, until an ending tunnel ends
LONGEST_END_SECONDS = 20.0  # until an ending tunnel is cut
Taken = tuple[asyncio.Transport, bytes]  # a socket, and the bytes that were already read from the socket
TAKE_SECONDS = 10.0  # limit for the client's socket to arrive: the client may have disconnected


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


def upgrade(received: Request, response: Response, node: Upgraded, way: streams.Way) -> Upgrade:
    """Returns the answer that joins the two sockets."""

    def take_over(server: Server, client: asyncio.Transport, sent: bytes) -> None:
        Tunnel(server, received.state, (client, sent), node.take_over(), way)

    return Upgrade([*response.headers, (b"connection", b"Upgrade"), (b"upgrade", b"websocket")], take_over)


class Tunnel:
    """Two sockets. The tunnel is a connection of the server (http1.connection.ServedConnection) until both sockets have ended."""

    def __init__(self, server: Server, state: dict[str, Any], client: Taken, node: Taken, way: streams.Way) -> None:
        self.server, self.state, self.way = server, state, way
        self.loop = asyncio.get_running_loop()
        self.deadline = NEVER
        self.unwritten = 0
        self.until = NEVER  # an ending tunnel is cut then
        self.sides = Side(self, client[0]), Side(self, node[0])
        self.sides[0].other, self.sides[1].other = self.sides[1], self.sides[0]
        self.server.enter(self)
        for side in self.sides:
            side.transport.set_protocol(side)
            side.transport.set_write_buffer_limits(MOST_WRITTEN)
        self.mark()
        for side, first in zip(self.sides, (client[1], node[1]), strict=True):
            side.begin(first)
        streams.enter(self)

    def mark(self) -> None:
        """Resets the deadline after a byte passed, or after a reader became slow or fast."""
        if any(side.is_slow for side in self.sides):
            self.unwritten = self.waiting()
            self.deadline = self.loop.time() + self.server.limits.write_seconds
        else:
            is_ending = self.server.draining or self.until != NEVER
            seconds = QUIET_SECONDS if is_ending else self.server.limits.idle_seconds
            self.deadline = min(self.loop.time() + seconds, self.until)

    def expire(self, now: float) -> None:
        """Handles the deadline: a reader that takes no bytes is cut off, and a quiet tunnel ends."""
        left = self.waiting()
        if now >= self.until:
            self.abort()
        elif left and left < self.unwritten:  # the reader is slow, but still reads
            self.unwritten, self.deadline = left, now + self.server.limits.write_seconds
        elif left or any(side.is_lost for side in self.sides):
            self.abort()
        else:
            for side in self.sides:
                side.close()

    def waiting(self) -> int:
        """Returns the number of bytes that the two readers have not taken yet."""
        return sum(side.transport.get_write_buffer_size() for side in self.sides if not side.is_lost)

    def end(self, why: streams.End) -> None:
        if self.until == NEVER:
            self.until = self.loop.time() + LONGEST_END_SECONDS
            self.mark()

    def drain(self) -> None:
        self.mark()

    def abort(self) -> None:
        for side in self.sides:
            side.transport.abort()

    def ended(self) -> None:
        """Handles the end of a side: the other side ends after its remaining bytes."""
        for side in self.sides:
            side.close()
        if all(side.is_lost for side in self.sides):
            self.server.leave(self)
            streams.leave(self)
            if self.server.on_close is not None:
                self.server.on_close(self.state)
        else:
            self.unwritten = self.waiting()
            self.deadline = self.loop.time() + self.server.limits.write_seconds


class Side(asyncio.Protocol):
    """One socket of a tunnel. `is_slow`: the socket's reader does not take the written bytes."""

    other: Side

    def __init__(self, tunnel: Tunnel, transport: asyncio.Transport) -> None:
        self.tunnel, self.transport = tunnel, transport
        self.is_slow = self.is_lost = self.has_ended = False

    def begin(self, first: bytes) -> None:
        """Passes on the bytes that were already read."""
        if first:
            self.other.transport.write(first)
        if self.transport.is_closing():
            # The socket closed before the protocol was set, so the loop does not call connection_lost.
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
        """Handles the end of this side's bytes.

        Returns True if this side can still read, because both sockets support half-closing.
        """
        self.has_ended = True
        is_half_open = all(side.transport.can_write_eof() for side in self.tunnel.sides)  # TLS cannot half-close
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
        """Closes the socket after the written bytes."""
        if not self.is_lost:
            self.transport.close()
