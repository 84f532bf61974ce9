"""The connection of one client: its transport, its deadlines and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Protocol, cast

from http1 import reader
from http1.deadlines import NEVER
from http1.errors import Refused
from http1.exchanges import BEGUN, Exchange, Exchanges
from http1.handlers import Handlers, HandlingServer
from http1.limits import Limits, head_too_slow, too_slow
from http1.messages import Request, Upgrade
from http1.reader import RequestReader

log = logging.getLogger(__name__)

BODY, PIPELINE, OUTPUT, UPGRADE = 1, 2, 4, 8  # reasons why a connection is not read
# In the `state` of a connection that was accepted although no file descriptor was free (acceptor.py). The handler should answer
# only what must be answered even then.
SPARE = "spare"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ConnectionPhase(Enum):
    OPEN = auto()
    HALF_CLOSED = auto()  # the client has ended its side, and still gets answers that finish soon
    LINGERING = auto()  # our side has ended, and the client may still read its last answer
    ENDED = auto()  # the transport is closed, or was handed over


OPEN, HALF_CLOSED, LINGERING, ENDED = ConnectionPhase  # a name of this module is found sooner than a member of an enum


class ServedConnection(Protocol):
    """The server's interface to a connection. Other protocols than `Connection` can implement it."""

    deadline: float

    def drain(self) -> None: ...
    def abort(self) -> None: ...
    def expire(self, now: float) -> None: ...


class ConnectionServer(HandlingServer, Protocol):
    """`on_close` is called with the `state` of each connection that ended."""

    draining: bool
    on_close: Callable[[dict[str, Any]], None] | None

    def enter(self, member: ServedConnection) -> None: ...
    def leave(self, member: ServedConnection) -> None: ...


class Connection(asyncio.Protocol):
    """The connection of one client. `state` belongs to the handler.

    | phase              | event                                               | next                                      |
    |--------------------|-----------------------------------------------------|-------------------------------------------|
    | OPEN               | the client ends its side, and whole answers are due | HALF_CLOSED                               |
    | OPEN, HALF_CLOSED  | the last answer was written                         | LINGERING, or ENDED if the client has     |
    |                    |                                                     | ended its side                            |
    | OPEN, HALF_CLOSED  | the answer to a request to upgrade was written      | ENDED, handed over                        |
    | each               | the transport is closed                             | ENDED                                     |

    The client loses the transport if it ends its side in another phase or within a body or a stream, if it misses a deadline, or
    if it sends too much while LINGERING.
    """

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    def __init__(self, server: ConnectionServer, limits: Limits, state: dict[str, Any]) -> None:
        self.server, self.limits, self.state = server, limits, state
        self.phase = OPEN
        self.is_over = False  # whether no more answers are written
        self.deadline = NEVER
        self.origin = ""
        self.reader = RequestReader(self)
        self.exchanges = Exchanges(self)
        self.handlers = Handlers(server, self.exchanges, limits.in_flight)
        self.paused = 0
        self.unwritten = 0  # bytes that a slow client had not taken at its last deadline
        self.lingered = 0  # bytes that the client has sent while LINGERING

    @property
    def is_draining(self) -> bool:
        return self.server.draining

    @property
    def is_last(self) -> bool:
        """Whether the connection ends after its next answer."""
        return self.server.draining or SPARE in self.state

    def become(self, phase: ConnectionPhase) -> None:
        self.phase, self.is_over = phase, phase is ENDED or phase is LINGERING

    # -- The transport -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's class does not inherit from it
        self.transport = self.exchanges.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(self.limits.unsent_bytes)
        peer = transport.get_extra_info("peername")
        self.origin = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        if certificate := transport.get_extra_info("peercert"):
            self.state["certificate"] = certificate
        self.loop = asyncio.get_running_loop()
        self.server.enter(self)
        self.mark()

    def data_received(self, data: bytes) -> None:
        before = self.reader.state
        if before is reader.STOPPED:
            self.linger(len(data))
            return
        self.reader.receive(data)
        self.start()
        # The head of a request that arrived whole has set its deadline, or the answer has.
        if self.paused or before is not reader.BETWEEN or self.reader.state is not reader.BETWEEN:
            self.mark()

    def eof_received(self) -> bool:
        """Handles the end of the client's data. The client may still read, so the server sends answers that finish soon."""
        self.reader.cut_off()
        queue, state = self.exchanges.queue, self.reader.state
        if state is reader.STOPPED or state is reader.BODY or not queue or queue[0].state is BEGUN:
            return False  # the transport closes, because no client reads the rest of a stream
        self.become(HALF_CLOSED)
        queue[-1].ends = True
        self.handlers.hang_up()
        self.mark()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.become(ENDED)
        self.server.leave(self)
        self.reader.cut_off()
        self.reader.stop()
        self.exchanges.lose(self.limits.cancels)
        self.handlers.hang_up()
        self.handlers.waiting.clear()
        if self.server.on_close is not None and self.state:
            self.server.on_close(self.state)

    def pause_writing(self) -> None:
        self.exchanges.drained = self.loop.create_future()
        self.unwritten = self.transport.get_write_buffer_size()
        self.pause(OUTPUT)
        self.mark()

    def resume_writing(self) -> None:
        drained, self.exchanges.drained = self.exchanges.drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        self.resume(OUTPUT)
        self.mark()

    def pause(self, why: int) -> None:
        if not self.paused and self.phase is not ENDED:
            self.transport.pause_reading()
        self.paused |= why

    def resume(self, why: int) -> None:
        if self.paused & why:
            self.paused &= ~why
            if not self.paused and self.phase is not ENDED:
                self.transport.resume_reading()

    # -- Requests, from the reader -----------------------------------------------------------------------------------

    def add(self, exchange: Exchange) -> None:
        """Adds a request when its head has arrived."""
        self.exchanges.queue.append(exchange)
        self.handlers.waiting.append(exchange)

    def add_upgrade(self, exchange: Exchange) -> None:
        """The last request asks for an upgrade. Its handler decides before the client's next bytes are read."""
        self.exchanges.upgrade = exchange
        self.pause(UPGRADE)

    def add_refusal(self, refusal: Refused) -> None:
        """Adds the answer to an unreadable request."""
        exchange = Exchange(None)
        self.exchanges.queue.append(exchange)
        self.exchanges.send(exchange, self.server.on_error(refusal))

    def start(self) -> None:
        self.handlers.start()
        if self.handlers.waiting:
            self.pause(PIPELINE)
        elif self.paused:
            self.resume(PIPELINE)

    # -- Bodies (http1.body.Source) ----------------------------------------------------------------------------------

    def pause_body(self) -> None:
        self.pause(BODY)

    def resume_body(self) -> None:
        self.resume(BODY)
        self.mark()

    def want_body(self) -> None:
        request, queue = self.reader.current, self.exchanges.queue
        if request is not None and request.awaits_word and queue and queue[0].request is request:
            request.awaits_word = False
            if queue[0].state is not BEGUN:  # otherwise the word would be a part of the answer
                self.transport.write(CONTINUE)
            self.deadline = NEVER  # the client's time begins now
            self.mark()

    @property
    def is_body_wanted(self) -> bool:
        """Whether the client has to send the body now. It may wait for the word to continue."""
        request = self.reader.current
        return not self.paused and request is not None and not request.awaits_word

    # -- Answers, from the exchanges ---------------------------------------------------------------------------------

    def came_first(self, request: Request) -> None:
        """The answer to a request is the next one."""
        if request is self.reader.current and request.body.is_awaited:
            self.want_body()

    def answered(self, exchange: Exchange) -> None:
        """An answer is complete, and the connection continues."""
        if exchange.request is not None:
            self.handlers.running -= 1
        if self.handlers.waiting:
            self.start()
        if exchange is self.exchanges.upgrade:
            self.decline_upgrade()
        self.mark()

    def decline_upgrade(self) -> None:
        """Continues after a handler that did not upgrade. The bytes behind the request are the next request."""
        self.exchanges.upgrade = None
        self.resume(UPGRADE)
        if rest := self.reader.declined():
            self.data_received(rest)

    def hand_over(self, answer: Upgrade) -> None:
        """Gives the socket away, after a 101."""
        self.server.leave(self)
        self.become(ENDED)
        if self.paused:
            self.transport.resume_reading()
        answer.take_over(self.server, self.transport, self.reader.rest)

    # -- The end -----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Stops answering, and ignores further data until the client ends its side.

        To close at once could reset the connection before the client has read the answer.
        """
        self.exchanges.drop()
        self.handlers.waiting.clear()
        self.reader.stop()
        if self.phase is HALF_CLOSED or not self.transport.can_write_eof():
            self.become(ENDED)
            self.transport.close()
            return
        self.transport.write_eof()
        self.become(LINGERING)
        self.paused = 0
        self.transport.resume_reading()
        self.deadline = self.loop.time() + self.limits.linger_seconds

    def linger(self, size: int) -> None:
        self.lingered += size
        if self.lingered > self.limits.linger_bytes and self.phase is LINGERING:
            self.transport.close()

    def abort(self) -> None:
        self.reader.state = reader.STOPPED
        self.transport.abort()

    def drain(self) -> None:
        """Closes an idle connection, because the server is shutting down. Others close after their last answer."""
        if not self.exchanges.queue and self.reader.state in (reader.BETWEEN, reader.METHOD):
            self.transport.close()

    # -- Time --------------------------------------------------------------------------------------------------------

    def mark(self) -> None:
        """Sets the deadline for the next thing that the client has to do."""
        if self.is_over:
            return
        limits, state = self.limits, self.reader.state
        if self.exchanges.drained is not None:
            self.deadline = self.loop.time() + limits.write_seconds
        elif state is reader.HEAD or state is reader.METHOD:
            return  # this deadline counts from the head's first byte
        elif state is reader.BODY:
            is_met = self.reader.arrived >= limits.upload_grace_seconds * limits.upload_bytes_a_second
            if is_met:
                self.reader.arrived = 0
            if is_met or self.deadline == NEVER:
                self.deadline = self.loop.time() + limits.upload_grace_seconds
        elif self.exchanges.queue:
            self.deadline = self.loop.time() + limits.linger_seconds if self.phase is HALF_CLOSED else NEVER
        else:
            self.deadline = self.loop.time() + limits.idle_seconds

    def expire(self, now: float) -> None:
        """Handles a client that missed its deadline."""
        state = self.reader.state
        if self.phase is not OPEN:
            self.abort()
        elif self.exchanges.drained is not None:
            left = self.transport.get_write_buffer_size()
            if left < self.unwritten:  # the client is slow, but it reads
                self.unwritten, self.deadline = left, now + self.limits.write_seconds
            else:
                log.info("A client that read nothing was disconnected")
                self.abort()
        elif state is reader.BODY:
            if self.is_body_wanted:
                self.reader.refuse(too_slow(self.limits))
                self.mark()  # the handler may take its time until it answers
            else:
                self.reader.arrived, self.deadline = 0, now + self.limits.upload_grace_seconds
        elif state is reader.HEAD or (state is reader.METHOD and self.exchanges.queue):
            self.reader.refuse(head_too_slow(self.limits))
        else:
            self.transport.close()
