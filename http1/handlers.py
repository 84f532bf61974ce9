"""The running handlers of one connection, and the ways of their answers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from http1.errors import BrokenOff, Refused
from http1.exchanges import BEGUN, Exchange, Exchanges
from http1.hang_up import hang_up
from http1.messages import Request, Response
from http1.writer import Writer, WrittenAnswer

log = logging.getLogger(__name__)

Answering = Response | WrittenAnswer
Handler = Callable[[Request], "Answering | Awaitable[Answering]"]
OF_ALL = ((b"allow", b"GET, HEAD, POST, PUT, DELETE, OPTIONS"),)  # the methods that some path takes


class HandlingServer(Protocol):
    """`on_error` renders a refusal of the HTTP layer."""

    handler: Handler
    on_error: Callable[[Refused], Response]


class Handlers:
    """Starts a handler for each request, and sends its answer. At most `most` handlers run at once."""

    __slots__ = ("connection", "exchanges", "most", "running", "server", "waiting")

    def __init__(self, server: HandlingServer, exchanges: Exchanges, most: int) -> None:
        self.server, self.connection, self.exchanges, self.most = server, exchanges.connection, exchanges, most
        self.waiting: deque[Exchange] = deque()  # exchanges of the queue without a running handler
        self.running = 0

    def start(self) -> None:
        """Starts handlers for waiting requests, as many at once as the limits allow."""
        while self.waiting and self.running < self.most and not self.connection.is_over:
            exchange = self.waiting.popleft()
            self.running += 1
            try:
                request = exchange.request
                assert request is not None
                answer = Response(204, OF_ALL) if request.is_of_all else self.server.handler(request)
            except Exception as error:
                answer = self.failed(error)
            if isinstance(answer, Response) and isinstance(answer.body, bytes):
                self.exchanges.send(exchange, answer)
            else:
                exchange.task = self.connection.loop.create_task(self.handle(exchange, answer))

    async def handle(self, exchange: Exchange, answer: Answering | Awaitable[Answering]) -> None:
        try:
            if not isinstance(answer, Answering):
                try:
                    answer = await answer
                except Exception as error:
                    answer = self.failed(error)
            if isinstance(answer, WrittenAnswer):
                await self.run(exchange, answer)
            elif isinstance(answer.body, bytes):
                self.exchanges.send(exchange, answer)
            else:
                await self.stream(exchange, answer, answer.body)
        except asyncio.CancelledError:
            if not self.connection.is_over:
                self.connection.abort()

    async def stream(self, exchange: Exchange, answer: Response, body: AsyncIterator[bytes]) -> None:
        """Sends an answer part by part, as the iterator yields them."""
        writer = Writer(self.exchanges, exchange)
        try:
            writer.begin(answer)
            if exchange.state is BEGUN:
                async for part in body:
                    await writer.write(part)
                    if self.connection.is_over:
                        return
            writer.end()
        except BrokenOff:
            writer.break_off()
        except Exception as error:
            self.broke(error)
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()

    async def run(self, exchange: Exchange, answer: WrittenAnswer) -> None:
        """Lets the handler write the answer."""
        writer = Writer(self.exchanges, exchange)
        exchange.gone = writer.gone
        if self.connection.is_over:
            writer.gone.set_result(None)
        try:
            await answer.run(writer)
            assert writer.has_ended or self.connection.is_over, "the handler did not finish its answer"
        except Exception as error:
            if writer.has_begun:
                self.broke(error)
            else:
                writer.send(self.failed(error))

    def failed(self, error: Exception) -> Response:
        """Returns the answer to a request after its handler has failed."""
        if isinstance(error, Refused):
            return self.server.on_error(error)
        log.error("A request failed. The client got 500", exc_info=error)
        return self.server.on_error(Refused(500, "internal", "the server failed on this request and logged the error"))

    def broke(self, error: Exception) -> None:
        """Handles an error after the head was sent. Only the end of the connection can show that the body is incomplete."""
        if not self.connection.is_over:
            if not isinstance(error, Refused):
                log.warning(
                    "A streamed answer failed, and its connection was closed: %s: %s", type(error).__name__, error
                )
            self.connection.abort()

    def hang_up(self) -> None:
        """Ends the waits of handlers, because the client is gone."""
        for exchange in self.exchanges.queue:
            if exchange.task is not None:
                hang_up(exchange.task)
