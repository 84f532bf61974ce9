"""A WebSocket that the server cannot take now. Its client gets a close frame, and the server reads nothing from it."""

from __future__ import annotations

import asyncio

from websockets.frames import CloseCode

from http1.deadlines import NEVER
from http1.server import Server
from sockets.protocol import FrameProtocol
from sockets.socket import LINGER_SECONDS, LONGEST_REASON


class Busy(asyncio.Protocol):
    """The protocol of such a WebSocket, from the answer to the handshake until the client has ended its side."""

    __slots__ = ("deadline", "protocol", "reason", "server", "transport")

    server: Server
    transport: asyncio.Transport

    def __init__(self, protocol: FrameProtocol, reason: str) -> None:
        self.protocol, self.reason, self.deadline = protocol, reason, NEVER

    def take_over(self, server: Server, transport: asyncio.Transport, rest: bytes) -> None:
        self.server, self.transport = server, transport
        if transport.is_closing():
            return
        server.enter(self)
        transport.set_protocol(self)
        self.deadline = asyncio.get_running_loop().time() + LINGER_SECONDS
        self.protocol.close(CloseCode.TRY_AGAIN_LATER, self.reason[:LONGEST_REASON])
        transport.write(b"".join(self.protocol.data_to_send()))
        transport.write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        self.server.leave(self)

    def expire(self, now: float) -> None:
        self.transport.abort()

    def drain(self) -> None:
        self.transport.abort()

    def abort(self) -> None:
        self.transport.abort()
