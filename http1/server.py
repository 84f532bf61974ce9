"""The server's side: the `Server`, and one `Connection` for each client.

Several requests of one connection can be in flight. Their answers are sent in the order of the requests. httptools reads heads
and frames bodies. `Connection._head` refuses requests that httptools accepts and a server must refuse. An unreadable request ends
the connection, because the start of the next request is unknown.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import httptools

from http1.acceptor import Acceptor, Shares
from http1.body import Body
from http1.deadlines import NEVER, Deadlines
from http1.errors import Refused, malformed, too_large
from http1.messages import BODILESS, Headers, Request, Response, Upgrade, status_line
from http1.writer import Exchange, Writer, Written

log = logging.getLogger(__name__)

Answering = Response | Written
Handler = Callable[[Request], "Answering | Awaitable[Answering]"]
# httptools knows some 40 methods and fails on others. The handler must get requests with strange methods too, and refuse them.
USUAL = re.compile(rb"(?:\r?\n)*(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|TRACE) ")
STRANGE = re.compile(rb"((?:\r?\n)*)([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) ")
BEGUN = re.compile(rb"(?:\r?\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")  # a method without its end
LONGEST_METHOD = 80  # bytes, with the line ends before it
BODY, PIPELINE, OUTPUT, UPGRADE = 1, 2, 4, 8  # reasons why a connection is not read
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True)
class Limits:
    """The limits of one connection. Times are in seconds, sizes in bytes."""

    head_bytes: int = 64 * 1024  # above this: 431
    head_fields: int = 100  # above this: 431
    body_bytes: int = 64 * 1024 * 1024  # above this: 413, before the body is read if the head announces its length
    in_flight: int = 16  # requests of one connection that are handled at once. More requests wait, unread.
    head_seconds: float = 10.0  # from a head's first byte to its last byte
    idle_seconds: float = 75.0  # between two requests
    upload_grace_seconds: float = 10.0  # period over which the rate below is averaged
    upload_bytes_a_second: int = 16 * 1024  # least rate of a body
    unsent_bytes: int = 256 * 1024  # unsent bytes for a slow client. Above this, its answers pause.
    write_seconds: float = 30.0  # the server cuts off a client that takes no bytes for this time
    linger_seconds: float = 2.0  # time for a client to read a refusal before the connection ends
    linger_bytes: int = 1024 * 1024  # bytes that the server reads and discards in that time
    cancels: bool = True  # whether a handler is cancelled when its client disconnects. An iterator of parts always is.


def plain_error(error: Refused) -> Response:
    body = json.dumps(error.body()).encode()
    return Response(error.status, [(b"content-type", b"application/json")], body)


class Member(Protocol):
    """The server's interface to a connection. Other protocols than `Connection` can implement it."""

    deadline: float

    def drain(self) -> None: ...
    def abort(self) -> None: ...
    def expire(self, now: float) -> None: ...


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
        self.connections: set[Member] = set()
        self.draining = False
        self.listeners: list[asyncio.Server] = []
        self.acceptor: Acceptor | None = None
        times = self.limits.head_seconds, self.limits.idle_seconds, self.limits.upload_grace_seconds
        self.deadlines = Deadlines(min(1.0, min(times) / 4))

    def protocol(self) -> Connection:
        return Connection(self)

    def enter(self, member: Member) -> None:
        """Note a new connection."""
        self.connections.add(member)
        self.deadlines.add(member)
        if self.acceptor is not None:
            self.acceptor.count()

    def leave(self, member: Member) -> None:
        """Note the end of a connection."""
        self.connections.discard(member)
        self.deadlines.discard(member)
        if self.acceptor is not None:
            self.acceptor.count()

    def share(self, listener: socket.socket, shares: Shares, slot: int) -> None:
        """Listen on a socket together with other processes (acceptor.py). `slot`: of this process in `shares`."""
        self.acceptor = Acceptor(listener, self.protocol, lambda: len(self.connections), shares, slot)

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


class Connection(asyncio.Protocol):
    """The connection of one client. It reads requests, calls the handler, and writes the answers in order."""

    def __init__(self, server: Server) -> None:
        self.server, self.limits = server, server.limits
        self.deadline = NEVER
        self.state: dict[str, Any] = {}
        self.origin = ""
        self.paused = 0
        self.queue: deque[Exchange] = deque()  # in the order of the requests
        self.waiting: deque[Exchange] = deque()  # exchanges of the queue without a running handler
        self.running = 0
        self.reading_head = self.resuming = False
        self.current: Request | None = None  # the request whose body is still arriving
        self.head_size = self.arrived = self.lingered = 0
        self.headers: Headers = []
        self.target = b""
        self.strange = ""  # a method that httptools does not know
        self.odd = b""  # the beginning of a head, too short to contain a whole method
        self.refusal: Refused | None = None
        # `over`: no more answers are written. `lost`: the transport is closed, or was handed over.
        self.over = self.lost = self.closing = self.lingering = self.eof = False
        self.drained: asyncio.Future[None] | None = None
        self.unwritten = 0
        self.upgrade: Exchange | None = None
        self.rest = b""  # bytes behind a request to upgrade

    @property
    def is_draining(self) -> bool:
        return self.server.draining

    # -- The transport -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from it
        self.transport.set_write_buffer_limits(self.limits.unsent_bytes)
        peer = transport.get_extra_info("peername")
        self.origin = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        if certificate := transport.get_extra_info("peercert"):
            self.state["certificate"] = certificate
        self.loop = asyncio.get_running_loop()
        self.parser = httptools.HttpRequestParser(self)
        self.server.enter(self)
        self._mark()

    def data_received(self, data: bytes) -> None:
        if self.closing:
            self._linger(len(data))
            return
        if self.upgrade is not None:
            self.rest += data
            return
        was_reading_head = self.reading_head
        is_between = not was_reading_head and self.current is None
        if is_between:
            self.deadline = self.loop.time() + self.limits.head_seconds
            if not USUAL.match(data) or self.odd:
                data = self._strange(self.odd + data)
                if not data:
                    return
        self._feed(data, is_between)
        if was_reading_head and self.reading_head:
            self.head_size += len(data)
            if self.head_size > self.limits.head_bytes:
                self._refuse(head_too_large(self.limits))
        if (self.reading_head or self.odd) and (self.deadline == NEVER or not (was_reading_head or is_between)):
            self.deadline = self.loop.time() + self.limits.head_seconds  # this head began behind another request
        self._start()
        self._mark()

    def eof_received(self) -> bool:
        """Handle the end of the client's data. The client may still read, so the server sends answers that finish soon."""
        self.eof = True
        if self.current is not None:
            self.current.body.fail(malformed("the body is incomplete"))
        if self.closing or not self.queue or self.current is not None or self.queue[0].went_out:
            return False  # the transport closes, because no client reads the rest of a stream
        self.queue[-1].ends = True
        self._mark()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.over = self.lost = self.closing = True
        self.server.leave(self)
        if self.current is not None:
            self.current.body.fail(malformed("the body is incomplete"))
        if self.drained is not None and not self.drained.done():
            self.drained.set_result(None)
        for exchange in self.queue:
            if exchange.writer is not None:
                exchange.writer.gone.set_result(None)
            elif exchange.task is not None and (self.limits.cancels or exchange.went_out):
                exchange.task.cancel()
        self.waiting.clear()
        if self.server.on_close is not None and self.state:
            self.server.on_close(self.state)

    def pause_writing(self) -> None:
        self.drained = self.loop.create_future()
        self.unwritten = self.transport.get_write_buffer_size()
        self._pause(OUTPUT)
        self._mark()

    def resume_writing(self) -> None:
        if self.drained is not None and not self.drained.done():
            self.drained.set_result(None)
        self.drained = None
        self._resume(OUTPUT)
        self._mark()

    def _pause(self, why: int) -> None:
        if not self.paused and not self.lost:
            self.transport.pause_reading()
        self.paused |= why

    def _resume(self, why: int) -> None:
        if self.paused & why:
            self.paused &= ~why
            if not self.paused and not self.lost:
                self.transport.resume_reading()

    # -- Reading requests --------------------------------------------------------------------------------------------

    def _strange(self, data: bytes) -> bytes:
        """Replace a method that httptools does not know. Returns the new data, or b"" until the whole method has arrived."""
        if USUAL.match(data):
            self.odd = b""
            return data
        if found := STRANGE.match(data):
            self.odd = b""
            self.strange = found[2].decode("ascii")
            return b"%bPATCH%b" % (found[1], data[found.end(2) :])
        if b" " in data or len(data) > LONGEST_METHOD:
            self.odd = b""
            return data  # httptools refuses the data with a reason
        self.odd = data
        return b""

    def _feed(self, data: bytes, is_between: bool = False) -> None:
        """Parse data. `is_between`: `data` begins with a request."""
        due = len(self.queue)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            is_method = isinstance(error, httptools.HttpParserInvalidMethodError)
            if is_between and is_method and self._is_strange_behind(data, due):
                return
            # Data after the last request of a connection are ignored, and cause no refusal.
            if self.queue and self.queue[-1].ends and self.current is None and not self.reading_head:
                return
            self._refuse(self.refusal or malformed(f"the request is not valid HTTP/1.1: {error}"))
        else:
            if is_between and self.reading_head and not self.target:
                self._is_strange_behind(data, due)

    def _is_strange_behind(self, data: bytes, due: int) -> bool:
        """Continue at an unknown method, whole or partial, after the requests of `data`. Returns whether `data` has one.

        `due`: the number of earlier requests.
        """
        rest = behind(data, [each.request for each in list(self.queue)[due:]])
        if self.current is not None or not (STRANGE.match(rest) or BEGUN.fullmatch(rest)):
            return False
        self.reading_head = False
        self._read_on(None, self._strange(rest))
        return True

    def _upgraded(self, rest: bytes) -> None:
        """Handle a request to upgrade, where httptools stops reading.

        Without a body, the handler decides. A request with a body is not a WebSocket, so the connection ignores the upgrade.
        """
        if self.current is not None:
            self._read_on(self.current.body.length, rest)
        else:
            self.upgrade, self.rest = self.queue[-1], rest
            self._pause(UPGRADE)

    def _read_on(self, length: int | None, rest: bytes) -> None:
        """Parse `rest` with a new parser, from the start of the current request's body or from the next request."""
        self.parser = httptools.HttpRequestParser(self)
        if self.current is not None:
            framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
            self.resuming = True
            self.parser.feed_data(b"POST / HTTP/1.1\r\nhost: x\r\n%b\r\n\r\n" % framing)
            self.resuming = False
        if rest:
            self._feed(rest, self.current is None)

    def on_message_begin(self) -> None:
        if self.resuming:
            return
        self.headers, self.target, self.head_size = [], b"", 0
        self.reading_head = True

    def on_url(self, url: bytes) -> None:
        if not self.resuming:
            self.target += url
            self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.resuming:
            return
        self._count(len(name) + len(value) + 4)
        if self.reading_head:  # trailers are ignored
            self.headers.append((name.lower(), value))

    def _count(self, size: int) -> None:
        self.head_size += size
        if self.head_size > self.limits.head_bytes or len(self.headers) >= self.limits.head_fields:
            self.refusal = head_too_large(self.limits)
            raise self.refusal

    def on_headers_complete(self) -> None:
        if self.resuming:
            return
        self.reading_head = False
        try:
            request = self._head()
        except Refused as refusal:
            self.refusal = refusal
            raise
        exchange = Exchange(request)
        self.current = request
        self.arrived, self.deadline = 0, NEVER  # the head's deadline is no longer valid
        self.queue.append(exchange)
        self.waiting.append(exchange)

    def _head(self) -> Request:
        """Returns the request of the head that was just read. Raises Refused."""
        length: int | None = 0
        hosts = 0
        coded = False
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                coded = True
                if value.strip().lower() != b"chunked":
                    raise Refused(501, "invalid_request", "unknown Transfer-Encoding: expected chunked")
            elif name == b"expect" and value.lower() != b"100-continue":
                raise Refused(417, "invalid_request", "unknown Expect: expected 100-continue")
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise Refused(505, "invalid_request", f"HTTP/{version} is not supported: send HTTP/1.1")
        if hosts > 1 or (not hosts and version == "1.1"):
            raise malformed("expected exactly one Host header")
        if coded:
            length = None
            if version == "1.0":
                raise malformed("HTTP/1.0 does not support Transfer-Encoding: send Content-Length")
        if length is not None and length > self.limits.body_bytes:
            raise too_large(self.limits.body_bytes)
        method, self.strange = self.strange or self.parser.get_method().decode("ascii"), ""
        if method == "CONNECT":
            raise Refused(405, "method_not_allowed", "this server is not a proxy: CONNECT is not allowed")
        return Request(
            method,
            self.target,
            self.headers,
            Body(self, length),
            version=version,
            keep_alive=self.parser.should_keep_alive() and not self.is_draining,
            is_upgrade=self.parser.should_upgrade() and length == 0,
            origin=self.origin,
            state=self.state,
        )

    def on_body(self, part: bytes) -> None:
        assert self.current is not None
        self.arrived += len(part)
        body = self.current.body
        if body.size + len(part) > self.limits.body_bytes:
            self.refusal = too_large(self.limits.body_bytes)
            raise self.refusal
        body.feed(part)

    def on_message_complete(self) -> None:
        request = self.current
        # httptools regards a request to upgrade as complete after its head. Another parser reads its body (_upgraded).
        if request is not None and not (self.parser.should_upgrade() and request.body.length != 0):
            request.body.end()
            self.current = None

    def _refuse(self, refusal: Refused) -> None:
        """Refuse data, and stop reading. The refusal is sent after the answers to earlier requests."""
        if self.current is not None:
            # The current request has a handler, or will have one. The handler gets the error when it reads the body.
            self.current.body.fail(refusal)
            exchange = self.queue[-1]
            exchange.ends = True
            self.current = None
            self._stop_reading()
            return
        exchange = Exchange(None)
        self.queue.append(exchange)
        self._stop_reading()
        self.send(exchange, self.server.on_error(refusal))

    def _stop_reading(self) -> None:
        self.reading_head = False
        self.closing = True

    # -- Bodies (http1.body.Source) ----------------------------------------------------------------------------------

    def pause_body(self) -> None:
        self._pause(BODY)

    def resume_body(self) -> None:
        self._resume(BODY)
        self._mark()

    def want_body(self) -> None:
        request = self.current
        if request is not None and self.queue and self.queue[0].request is request and not self.queue[0].went_out:
            for place, (name, _) in enumerate(request.headers):
                if name == b"expect":
                    del request.headers[place]
                    self.transport.write(CONTINUE)
                    break

    # -- Handling ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start handlers for waiting requests, as many at once as the limits allow."""
        while self.waiting and self.running < self.limits.in_flight and not self.over:
            exchange = self.waiting.popleft()
            self.running += 1
            try:
                assert exchange.request is not None
                answer = self.server.handler(exchange.request)
            except Exception as error:
                answer = self._failed(error)
            if isinstance(answer, Response) and isinstance(answer.body, bytes):
                self.send(exchange, answer)
            else:
                exchange.task = self.loop.create_task(self._handle(exchange, answer))
        if self.waiting:
            self._pause(PIPELINE)
        else:
            self._resume(PIPELINE)

    async def _handle(self, exchange: Exchange, answer: Answering | Awaitable[Answering]) -> None:
        try:
            if not isinstance(answer, Answering):
                try:
                    answer = await answer
                except Exception as error:
                    answer = self._failed(error)
            if isinstance(answer, Written):
                await self._run(exchange, answer)
            elif isinstance(answer.body, bytes):
                self.send(exchange, answer)
            else:
                await self._stream(exchange, answer, answer.body)
        except asyncio.CancelledError:
            if not self.over:
                self.abort()

    def _failed(self, error: Exception) -> Response:
        if isinstance(error, Refused):
            return self.server.on_error(error)
        log.error("A request failed. The client got 500", exc_info=error)
        return self.server.on_error(Refused(500, "internal", "the server failed on this request and logged the error"))

    # -- Answers -----------------------------------------------------------------------------------------------------

    def send(self, exchange: Exchange, answer: Response) -> None:
        """Send a whole answer."""
        assert isinstance(answer.body, bytes)
        if self.over:
            return
        if isinstance(answer, Upgrade) and exchange is self.upgrade:
            self._hand_over(exchange, answer)
            return
        body = answer.body
        request = exchange.request
        parts = [status_line(answer.status)]
        for name, value in answer.headers:
            parts += name, b": ", value, b"\r\n"
        if request is not None:
            for name, value in request.added:
                parts += name, b": ", value, b"\r\n"
        if answer.status not in BODILESS:
            length = (
                len(body) if answer.length is None else answer.length
            )  # an answer to a HEAD may know the length without the body
            parts.append(b"content-length: %d\r\n" % length)
        self._ends(exchange, answer, parts)
        parts.append(b"\r\n")
        if body and (request is None or request.method != "HEAD") and answer.status not in BODILESS:
            parts.append(body)
        self.write(exchange, b"".join(parts))
        self.finish(exchange)

    def _ends(self, exchange: Exchange, answer: Response, parts: list[bytes]) -> None:
        """Add the connection header. The connection ends if either side wants it, or if the request's body was not read."""
        request = exchange.request
        if answer.close or self.is_draining or (request is not None and not request.body.complete):
            exchange.ends = True
        if exchange.ends:
            parts.append(b"connection: close\r\n")
        elif request is not None and request.version == "1.0":
            parts.append(b"connection: keep-alive\r\n")

    async def _stream(self, exchange: Exchange, answer: Response, body: AsyncIterator[bytes]) -> None:
        """Send an answer part by part, as the iterator yields them."""
        writer = Writer(self, exchange)
        try:
            writer.begin(answer)
            if exchange.went_out:
                async for part in body:
                    await writer.write(part)
                    if self.over:
                        return
            writer.end()
        except Exception as error:
            self._broke(error)
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()

    async def _run(self, exchange: Exchange, answer: Written) -> None:
        """Let the handler write the answer."""
        writer = exchange.writer = Writer(self, exchange)
        if self.lost:
            writer.gone.set_result(None)
        try:
            await answer.run(writer)
            assert writer.has_ended or self.over, "the handler did not finish its answer"
        except Exception as error:
            if writer.has_begun:
                self._broke(error)
            else:
                writer.send(self._failed(error))

    def _broke(self, error: Exception) -> None:
        """Handle an error after the head was sent. Only the end of the connection can show that the body is incomplete."""
        if not self.over:
            if not isinstance(error, Refused):
                log.warning(
                    "A streamed answer failed, and its connection was closed: %s: %s", type(error).__name__, error
                )
            self.abort()

    def has_gone_out(self, exchange: Exchange) -> None:
        """Note that the parts of an answer follow. So a request to upgrade was declined."""
        if exchange is self.upgrade:
            self._decline_upgrade()

    async def may_write(self, exchange: Exchange) -> None:
        """Wait until the exchange may produce more: it holds few bytes or is the first, and its client keeps up."""
        if exchange is not self.queue[0] and sum(map(len, exchange.held)) > self.limits.unsent_bytes:
            exchange.turn = self.loop.create_future()
            await exchange.turn
        while self.drained is not None and not self.over and exchange is self.queue[0]:
            await asyncio.shield(self.drained)

    def write(self, exchange: Exchange, data: bytes) -> None:
        if self.over:
            return
        if self.queue[0] is exchange:
            self.transport.write(data)
        else:
            exchange.held.append(data)

    def finish(self, exchange: Exchange) -> None:
        """Finish an exchange after its whole answer. Sends the held answers of the next exchanges."""
        if self.over:
            return
        exchange.done = True
        if exchange.request is not None:
            self.running -= 1
        while self.queue and self.queue[0].done:
            first = self.queue.popleft()
            if first.ends or (self.is_draining and not self.queue):
                self._close()
                return
            if self.queue:
                self._come_first(self.queue[0])
        if self.waiting:
            self._start()
        if exchange is self.upgrade:
            self._decline_upgrade()
        self._mark()

    def _decline_upgrade(self) -> None:
        """Continue after a handler that did not upgrade. The bytes behind the request are the next request."""
        self.upgrade = None
        self._resume(UPGRADE)
        rest, self.rest = self.rest, b""
        self._read_on(None, b"")
        if rest:
            self.data_received(rest)

    def _come_first(self, exchange: Exchange) -> None:
        if exchange.held:
            self.transport.write(b"".join(exchange.held))
            exchange.held.clear()
        if exchange.turn is not None and not exchange.turn.done():
            exchange.turn.set_result(None)
        request = exchange.request
        if request is not None and request is self.current and request.body.is_awaited:
            self.want_body()

    def _hand_over(self, exchange: Exchange, answer: Upgrade) -> None:
        """Answer 101 and hand the socket over. The upgrade is the last request of a connection."""
        if self.queue[0] is not exchange:
            # A few clients upgrade behind other requests. Then the socket is handed over after their answers.
            self.loop.create_task(self._hand_over_later(exchange, answer))
            return
        head = [status_line(101), *(part for name, value in answer.headers for part in (name, b": ", value, b"\r\n"))]
        self.transport.write(b"".join([*head, b"\r\n"]))
        self.queue.clear()
        self.server.leave(self)
        self.over = self.lost = self.closing = True  # for this protocol
        rest, self.rest = self.rest, b""
        if self.paused:
            self.transport.resume_reading()
        answer.take_over(self.server, self.transport, rest)

    async def _hand_over_later(self, exchange: Exchange, answer: Upgrade) -> None:
        exchange.turn = self.loop.create_future()
        await exchange.turn
        if not self.over:
            self._hand_over(exchange, answer)

    # -- The end -----------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Stop answering, and ignore further data until the client ends its side.

        To close at once could reset the connection before the client has read the answer.
        """
        self.over = True
        for exchange in self.queue:
            if exchange.task is not None:
                exchange.task.cancel()
        self.queue.clear()
        self.waiting.clear()
        self.closing = True
        if self.eof or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.current = None
        self.transport.write_eof()
        self.lingering = True
        self.paused = 0
        self.transport.resume_reading()
        self.deadline = self.loop.time() + self.limits.linger_seconds

    def _linger(self, size: int) -> None:
        self.lingered += size
        if self.lingered > self.limits.linger_bytes and self.lingering:
            self.transport.close()

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    def drain(self) -> None:
        """Close an idle connection, because the server is shutting down. Other connections close after their last answer."""
        if not self.queue and not self.reading_head and self.current is None:
            self.transport.close()

    # -- Time --------------------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        """Set the deadline for the next thing that the client has to do."""
        if self.lost or self.lingering:
            return
        limits = self.limits
        if self.drained is not None:
            self.deadline = self.loop.time() + limits.write_seconds
        elif self.reading_head or self.odd:
            return  # this deadline counts from the head's first byte
        elif self.current is not None:
            is_met = self.arrived >= limits.upload_grace_seconds * limits.upload_bytes_a_second
            if is_met:
                self.arrived = 0
            if is_met or self.deadline == NEVER:
                self.deadline = self.loop.time() + limits.upload_grace_seconds
        elif self.queue:
            self.deadline = self.loop.time() + limits.linger_seconds if self.eof else NEVER
        else:
            self.deadline = self.loop.time() + limits.idle_seconds

    def expire(self, now: float) -> None:
        """Handle a client that missed its deadline."""
        if self.lingering or self.eof:
            self.abort()
        elif self.drained is not None:
            left = self.transport.get_write_buffer_size()
            if left < self.unwritten:  # the client is slow, but it reads
                self.unwritten, self.deadline = left, now + self.limits.write_seconds
            else:
                log.info("A client that read nothing was disconnected")
                self.abort()
        elif self.current is not None:
            if self.paused:  # our side does not read
                self.arrived, self.deadline = 0, now + self.limits.upload_grace_seconds
            else:
                least, grace = self.limits.upload_bytes_a_second, self.limits.upload_grace_seconds
                self._refuse(
                    malformed(
                        f"the body arrived too slowly: expected at least {least} bytes per second over {grace:g} seconds"
                    )
                )
        elif self.reading_head:
            self._refuse(
                malformed(f"the head arrived too slowly: expected the head within {self.limits.head_seconds:g} seconds")
            )
        else:
            self.transport.close()


def behind(data: bytes, requests: list[Request | None]) -> bytes:
    """Returns the bytes behind the requests at the beginning of `data`. Returns b"" if an end is not certain (chunks)."""
    at = 0
    for request in requests:
        while data[at : at + 1] in (b"\r", b"\n"):
            at += 1
        end = data.find(b"\r\n\r\n", at)
        if request is None or request.body.length is None or end < 0:
            return b""
        at = end + 4 + request.body.length
    return data[at:] if requests else b""


def head_too_large(limits: Limits) -> Refused:
    return Refused(
        431,
        "invalid_request",
        f"the head is too large: expected at most {limits.head_bytes} bytes and {limits.head_fields} fields",
    )
