"""The order of exchanges: the answers of one connection are sent in the order of its requests.

Several requests can be handled at once. The first exchange writes to the client, and the others hold their bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum, auto
from typing import Protocol

from http1.limits import Limits
from http1.messages import BODILESS, Request, Response, Upgrade, status_line


class ExchangeState(Enum):
    OPEN = auto()  # no part of a body was sent
    BEGUN = auto()  # parts of the body follow
    DONE = auto()  # the answer is complete, and was sent or is held


OPEN, BEGUN, DONE = ExchangeState  # a name of this module is found sooner than a member of an enum


class Exchange:
    """One request, and the part of its answer that waits for earlier answers. Without a request, the answer is a refusal."""

    __slots__ = ("ends", "gone", "held", "request", "state", "task", "turn")

    def __init__(self, request: Request | None) -> None:
        self.request = request
        self.state = OPEN
        self.held: list[bytes] = []
        self.task: asyncio.Task[None] | None = None
        self.turn: asyncio.Future[None] | None = None  # resolved when this exchange is the first, or never will be
        # Of an answer that the handler writes itself: resolved when the client has disconnected.
        self.gone: asyncio.Future[None] | None = None
        self.ends = request is None or not request.keep_alive  # the connection ends after the answer

    def end_wait(self) -> None:
        """Ends the wait for its turn, because it is the first, or because its connection is over."""
        if self.turn is not None and not self.turn.done():
            self.turn.set_result(None)


class ExchangingConnection(Protocol):
    """The connection of the exchanges. `is_last`: the connection ends after its next answer. `is_over`: it writes no more."""

    loop: asyncio.AbstractEventLoop
    limits: Limits

    @property
    def is_last(self) -> bool: ...
    @property
    def is_draining(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...
    def answered(self, exchange: Exchange) -> None: ...
    def came_first(self, request: Request) -> None: ...
    def decline_upgrade(self) -> None: ...
    def hand_over(self, answer: Upgrade) -> None: ...
    def end(self) -> None: ...
    def abort(self) -> None: ...


class Exchanges:
    """The exchanges of one connection. `drained` is resolved when a slow client takes more."""

    __slots__ = ("connection", "drained", "queue", "transport", "upgrade")

    transport: asyncio.Transport

    def __init__(self, connection: ExchangingConnection) -> None:
        self.connection = connection
        self.queue: deque[Exchange] = deque()  # in the order of the requests
        self.drained: asyncio.Future[None] | None = None
        self.upgrade: Exchange | None = None  # a request to upgrade that has no answer yet

    def send(self, exchange: Exchange, answer: Response) -> None:
        """Sends a whole answer."""
        assert isinstance(answer.body, bytes)
        if self.connection.is_over:
            return
        if exchange is self.upgrade and isinstance(answer, Upgrade):
            self.hand_over(exchange, answer)
            return
        status, body, request = answer.status, answer.body, exchange.request
        parts = [status_line(status)]
        for name, value in answer.headers:
            parts += name, b": ", value, b"\r\n"
        if request is not None:
            for name, value in request.added:
                parts += name, b": ", value, b"\r\n"
        if status in BODILESS:
            body = b""
        else:  # an answer to a HEAD may know the length without the body
            parts.append(b"content-length: %d\r\n" % (len(body) if answer.length is None else answer.length))
        # The connection ends if either side wants it, or if the request's body was not read.
        if answer.close or self.connection.is_last or (request is not None and not request.body.complete):
            exchange.ends = True
        if exchange.ends:
            parts.append(b"connection: close\r\n")
        elif request is not None and request.version == "1.0":
            parts.append(b"connection: keep-alive\r\n")
        parts.append(b"\r\n")
        if body and (request is None or request.method != "HEAD"):
            parts.append(body)
        self.write(exchange, b"".join(parts))
        self.finish(exchange)

    def write(self, exchange: Exchange, data: bytes) -> None:
        """Writes a part of an answer, or holds it. The connection must not be over."""
        if self.queue[0] is exchange:
            self.transport.write(data)
        else:
            exchange.held.append(data)

    async def may_write(self, exchange: Exchange) -> None:
        """Waits until the exchange may produce more: it holds few bytes or is the first, and its client keeps up."""
        connection = self.connection
        if exchange is not self.queue[0] and sum(map(len, exchange.held)) > connection.limits.unsent_bytes:
            await self.turn(exchange)
        while self.drained is not None and not connection.is_over and exchange is self.queue[0]:
            await asyncio.shield(self.drained)

    async def turn(self, exchange: Exchange) -> None:
        """Waits until an exchange is the first, or its connection is over."""
        exchange.turn = self.connection.loop.create_future()
        await exchange.turn

    def begin(self, exchange: Exchange) -> None:
        """Notes that the parts of an answer follow. So a request to upgrade was declined."""
        exchange.state = BEGUN
        if exchange is self.upgrade:
            self.connection.decline_upgrade()

    def finish(self, exchange: Exchange) -> None:
        """Finishes an exchange after its whole answer. Sends the held answers of the next exchanges."""
        connection = self.connection
        exchange.state = DONE
        while self.queue and self.queue[0].state is DONE:
            first = self.queue.popleft()
            if first.ends or (not self.queue and connection.is_draining):
                connection.end()
                return
            if self.queue:
                self.come_first(self.queue[0])
        connection.answered(exchange)

    def come_first(self, exchange: Exchange) -> None:
        if exchange.held:
            self.transport.write(b"".join(exchange.held))
            exchange.held.clear()
        exchange.end_wait()
        if exchange.request is not None:
            self.connection.came_first(exchange.request)

    def hand_over(self, exchange: Exchange, answer: Upgrade) -> None:
        """Answers 101 and hands the socket over. The upgrade is the last request of a connection."""
        if self.queue[0] is not exchange:
            # A few clients upgrade behind other requests. Then the socket is handed over after their answers.
            self.connection.loop.create_task(self.hand_over_later(exchange, answer))
            return
        head = [status_line(101), *(part for name, value in answer.headers for part in (name, b": ", value, b"\r\n"))]
        self.transport.write(b"".join([*head, b"\r\n"]))
        self.queue.clear()
        self.connection.hand_over(answer)

    async def hand_over_later(self, exchange: Exchange, answer: Upgrade) -> None:
        await self.turn(exchange)
        if not self.connection.is_over:
            self.hand_over(exchange, answer)

    def drop(self) -> None:
        """Drops all exchanges, because the connection ends. Their handlers are cancelled."""
        for exchange in self.queue:
            if exchange.task is not None:
                exchange.task.cancel()
            exchange.end_wait()
        self.queue.clear()

    def lose(self, cancels: bool) -> None:
        """Tells the handlers that their client is gone. `cancels`: handlers that have not begun an answer are cancelled, too."""
        if self.drained is not None and not self.drained.done():
            self.drained.set_result(None)
        for exchange in self.queue:
            exchange.end_wait()
            if exchange.gone is not None:
                exchange.gone.set_result(None)
            elif exchange.task is not None and (cancels or exchange.state is BEGUN):
                exchange.task.cancel()
