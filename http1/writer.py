"""The sending side of an answer in parts, with back pressure: a part waits while its client is slow or earlier answers run."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

from http1.exchanges import Exchange, Exchanges
from http1.messages import BODILESS, Response, status_line

AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: the kernel drops unsent data and resets the connection


class Writer:
    """Writes the answer to one request. `send` takes a whole answer. For parts: `begin`, `write` each, then `end` or `break_off`.

    `gone` is resolved when the client has disconnected. After that, nothing is written.
    """

    __slots__ = (
        "_chunked",
        "_connection",
        "_exchange",
        "_exchanges",
        "_is_bodiless",
        "_left",
        "_length",
        "gone",
        "has_begun",
        "has_ended",
    )

    def __init__(self, exchanges: Exchanges, exchange: Exchange) -> None:
        self._exchanges, self._connection, self._exchange = exchanges, exchanges.connection, exchange
        self._chunked = self._is_bodiless = False
        self._left: int | None = None
        self._length: int | None = None
        self.has_begun = self.has_ended = False
        self.gone: asyncio.Future[None] = self._connection.loop.create_future()

    def send(self, answer: Response) -> None:
        """Send a whole answer, instead of parts."""
        self.has_begun = self.has_ended = True
        self._exchanges.send(self._exchange, answer)

    def begin(self, answer: Response) -> None:
        """Send the head of an answer. Its body is not used. With a `length`, the parts must have that many bytes in all."""
        connection, exchange, request = self._connection, self._exchange, self._exchange.request
        assert request is not None
        self.has_begun = True
        if connection.is_over:
            return
        self._is_bodiless = request.method == "HEAD" or answer.status in BODILESS
        self._chunked = answer.length is None and request.version == "1.1" and answer.status not in BODILESS
        self._left = self._length = answer.length
        parts = [status_line(answer.status)]
        for name, value in (*answer.headers, *request.added):
            parts += name, b": ", value, b"\r\n"
        if answer.length is not None:
            parts.append(b"content-length: %d\r\n" % answer.length)
        elif self._chunked:
            parts.append(b"transfer-encoding: chunked\r\n")
        else:
            exchange.ends = True  # the end of the connection marks the end of the body
        # Unlike a whole answer, this ignores an incomplete body, which may still arrive while the answer is sent.
        if answer.close or connection.is_draining:
            exchange.ends = True
        if exchange.ends:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        self._exchanges.write(exchange, b"".join(parts))
        if not self._is_bodiless:
            self._exchanges.begin(exchange)

    async def write(self, part: bytes) -> None:
        """Send a part, and wait until the client takes more. Raises ValueError if the part exceeds the Content-Length."""
        exchanges, exchange = self._exchanges, self._exchange
        if not part or self._is_bodiless or self._connection.is_over:
            return
        if self._left is not None:
            self._left -= len(part)
            if self._left < 0:
                raise ValueError(f"the body is longer than its Content-Length, {self._length}")
        exchanges.write(exchange, b"%x\r\n%b\r\n" % (len(part), part) if self._chunked else part)
        if exchanges.drained is not None or exchange is not exchanges.queue[0]:
            await exchanges.may_write(exchange)

    def end(self) -> None:
        """Finish the answer after its last part. Raises ValueError if bytes of the Content-Length are missing."""
        exchanges, exchange = self._exchanges, self._exchange
        self.has_ended = True
        if self._connection.is_over:
            return
        if not self._is_bodiless:
            if self._left:
                raise ValueError(f"the body is {self._left} bytes shorter than its Content-Length")
            if self._chunked:
                exchanges.write(exchange, b"0\r\n\r\n")
            if exchange.request is not None and not exchange.request.body.complete:
                exchange.ends = True
        exchanges.finish(exchange)

    def break_off(self) -> None:
        """End the connection after the parts that were written, without the last chunk. So the client sees a cut."""
        self.has_ended = True
        if not self._connection.is_over:
            self._exchange.ends = True
            self._exchanges.finish(self._exchange)

    @property
    def transport(self) -> asyncio.Transport:
        return self._exchanges.transport

    def reset(self) -> None:
        """End the connection at once. The kernel drops the data that the client has not taken."""
        self.has_ended = True
        transport = self.transport
        if (held := transport.get_extra_info("socket")) is not None and not transport.is_closing():
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self._connection.abort()


class WrittenAnswer:
    """An answer that the handler writes itself: `run(writer)` is called in a task.

    If the client disconnects, the task is not cancelled. It learns of the end from `writer.gone`.
    """

    __slots__ = ("run",)

    def __init__(self, run: Callable[[Writer], Awaitable[None]]) -> None:
        self.run = run
