"""The client's side: a pool of connections to one server.

A failed request reports whether the server can have seen the request (`Failure.reached`). The caller decides by this whether to
send the request again. A connection carries one request at a time. The client handles answers to `HEAD`, 1xx and upgrades.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import cast

import httptools

from base.descriptors import is_full, reserve
from http1.body import Body
from http1.deadlines import NEVER, Deadlines
from http1.messages import BODILESS, Headers

MOST_WRITTEN = 256 * 1024  # unsent bytes of a request to a slow server
MOST_HEAD = 256 * 1024  # bytes of an answer's head, of the lines between two parts of its body, and of its trailers
MOST_FIELDS = 250  # of an answer's head
Opener = Callable[[str, int], Awaitable[socket.socket]]  # host and port to a connected socket
NOBODY_NEEDS_LENGTH = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS"))


class Failure(Exception):
    """No answer arrived, or only a part of it.

    `kind`: `connect` (no connection), `full` (all connections of the pool are in use, or no file descriptor is free), `timeout`
    (connected, but no answer), `closed` (the connection ended), `malformed` (the answer is not HTTP, or its head is too large).
    `reached`: the server may have seen the request. If False, the server has certainly not seen it. `stale`: the connection was
    kept from an earlier request, and ended before the first byte of the answer.
    """

    def __init__(self, kind: str, message: str, *, reached: bool, stale: bool = False) -> None:
        super().__init__(message)
        self.kind, self.reached, self.stale = kind, reached, stale


@dataclass(frozen=True)
class Waits:
    """Times in seconds."""

    connect: float = 1.0
    answer: float = 10.0  # from the request's last byte to the answer's first byte
    silence: float = 90.0  # between two parts of an answer's body
    idle: float = 30.0  # after this time the pool closes a connection without a request


class Answer:
    """An answer with a complete head. `body` may still be arriving. `close` discards the rest."""

    __slots__ = ("_connection", "body", "headers", "status")

    def __init__(self, connection: UpstreamConnection, status: int, headers: Headers, body: Body) -> None:
        self._connection, self.status, self.headers, self.body = connection, status, headers, body

    def close(self) -> None:
        if not self.body.complete or self.status == 101:
            self._connection.abort()

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """After a 101, returns the socket and the bytes behind the head. The caller must set its own protocol at once."""
        return self._connection.hand_over()


class Pool:
    """Connections to one server, opened on demand, at most `most` at once.

    A request without a free connection waits as long as a connect may take. `opener` opens the sockets instead of the pool, and
    decides which addresses it connects to. Its errors other than OSError reach the caller of `send`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        waits: Waits | None = None,
        most: int = 512,
        opener: Opener | None = None,
    ) -> None:
        self.host, self.port, self.tls, self.waits, self.opener = host, port, tls, waits or Waits(), opener
        self.idle: list[UpstreamConnection] = []  # the last used connection is at the end
        self.connections: set[UpstreamConnection] = set()
        self.most = most
        self.open = 0  # connections that are open or being opened
        self.waiting: deque[asyncio.Future[None]] = deque()  # requests that wait for a free connection
        self.deadlines = Deadlines(min(0.5, self.waits.connect / 2, self.waits.answer / 4))
        self.closed = False
        plain = 443 if tls is not None else 80
        name = f"[{host}]" if ":" in host else host
        self.authority = (name if port == plain else f"{name}:{port}").encode("ascii")

    async def send(
        self,
        method: bytes,
        target: bytes,
        headers: Iterable[tuple[bytes, bytes]] = (),
        body: bytes | AsyncIterator[bytes] = b"",
        *,
        length: int | None = None,
        wait: float | None = None,
        check: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request and return its answer as soon as the answer's head is complete. Raises Failure.

        `headers`: without `host`, framing and `connection`. `length`: bytes of a body that is an iterator. Without a length the
        body is sent in chunks. `wait`: seconds for the answer, instead of the pool's. `check` is called right before the first
        byte is sent. If it raises, nothing is sent.
        """
        connection = self._idle_one() or await self.acquire()
        try:
            if check is not None:
                check()
            return await connection.ask(
                method, target, headers, body, length, self.waits.answer if wait is None else wait
            )
        except BaseException:
            connection.abort()
            raise

    async def acquire(self) -> UpstreamConnection:
        """Returns a new or a freed connection for the caller alone. Call it if no idle connection works. Raises Failure."""
        try:
            async with asyncio.timeout(self.waits.connect):
                while self.open >= self.most:
                    free = asyncio.get_running_loop().create_future()
                    self.waiting.append(free)
                    try:
                        await free
                    except asyncio.CancelledError:
                        if not free.cancelled():  # it was this request's turn, and it is the next one's now
                            self.freed(closed=False)
                        raise
                    if (connection := self._idle_one()) is not None:
                        return connection
                return await self._connect()
        except TimeoutError:
            if self.open >= self.most:
                message = f"all {self.most} connections to {self.name} are in use"
                raise Failure("full", message, reached=False) from None
            message = f"no connection to {self.name} in {self.waits.connect:g} s"
            raise Failure("connect", message, reached=False) from None
        except OSError as error:
            if is_full(error):
                reserve.tell(f"connect to {self.name}", error)
                raise Failure("full", f"no file descriptor is free for {self.name}", reached=False) from error
            raise Failure("connect", f"no connection to {self.name}: {error}", reached=False) from error

    def _idle_one(self) -> UpstreamConnection | None:
        while self.idle:
            connection = self.idle.pop()
            if connection.is_usable():
                return connection
        return None

    async def _connect(self) -> UpstreamConnection:
        tls, loop = self.tls, asyncio.get_running_loop()
        server_name = self.host if tls is not None else None
        connection = UpstreamConnection(self, tls)
        self.open += 1
        try:
            if self.opener is None:
                await loop.create_connection(
                    lambda: connection, self.host, self.port, ssl=tls, server_hostname=server_name
                )
            else:
                opened = await self.opener(self.host, self.port)
                await loop.create_connection(lambda: connection, sock=opened, ssl=tls, server_hostname=server_name)
        except BaseException:
            if connection in self.connections:  # it was just made. Then uvloop does not call its connection_lost.
                connection.abort()
            connection.leave()
            raise
        return connection

    def freed(self, *, closed: bool) -> None:
        """Wake a waiting request after a connection became idle or closed."""
        if closed:
            self.open -= 1
        while self.waiting:
            free = self.waiting.popleft()
            if not free.done():
                free.set_result(None)
                return

    @property
    def name(self) -> str:
        return self.authority.decode()

    def close(self) -> None:
        """End every connection, also connections in use."""
        self.closed = True
        for connection in list(self.connections):
            connection.abort()

    def keeps(self, tls: ssl.SSLContext | None) -> bool:
        """Returns whether a connection that was opened with these certificates may serve another request."""
        return not self.closed and tls is self.tls

    def renew(self, tls: ssl.SSLContext) -> None:
        """Opens new connections with other certificates. Idle connections end at once, and others after their request."""
        self.tls = tls
        for connection in self.idle:
            connection.abort()
        self.idle.clear()

    def retire(self) -> None:
        """End idle connections at once, and other connections as soon as they are idle."""
        self.closed = True
        for connection in self.idle:
            connection.abort()
        self.idle.clear()


class UpstreamConnection(asyncio.Protocol):
    """One connection to a server, one request at a time."""

    def __init__(self, pool: Pool, tls: ssl.SSLContext | None) -> None:
        self.pool, self.tls = pool, tls
        self.deadline = NEVER
        self.lost = self.ending = False
        self.head: asyncio.Future[Answer] | None = None
        self.body: Body | None = None
        self.uploading: asyncio.Task[None] | None = None
        self.drained: asyncio.Future[None] | None = None
        self.served = 0  # answered requests of this connection
        self.written = self.heard = False
        # Bytes since the request, the answer's head, or the last part of its body. Those of a line that has not ended count, too.
        self.unfinished = 0
        self.bodiless = self.until_eof = False
        self.rest: bytes | None = None  # bytes behind a 101

    # -- The transport -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from it
        self.transport.set_write_buffer_limits(MOST_WRITTEN)
        self.loop = asyncio.get_running_loop()
        self.parser: httptools.HttpResponseParser | None = None
        self.pool.connections.add(self)
        self.pool.deadlines.add(self)

    def is_usable(self) -> bool:
        return not (self.lost or self.ending or self.transport.is_closing())

    def data_received(self, data: bytes) -> None:
        if self.rest is not None:  # behind a 101, before the caller takes the socket
            self.rest += data
            return
        if self.head is None and self.body is None:  # data without a request
            self.abort()
            return
        self.heard = True
        self.unfinished += len(data)
        assert self.parser is not None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.rest = data[upgrade.args[0] :]
            self.transport.pause_reading()
        except httptools.HttpParserError as error:
            # After a bodiless answer no data may follow. If data follow, they are ignored and the connection ends.
            if self.head is not None or self.body is not None:
                self._fail(Failure("malformed", f"invalid HTTP/1.1 from {self.pool.name}: {error}", reached=True))
            self.abort()
        if self.unfinished > MOST_HEAD and (self.head is not None or self.body is not None):
            self._head_too_large()

    def eof_received(self) -> bool:
        # An answer without a length ends with its connection.
        if self.body is not None and self.body.length is None and self.parser is not None and self.until_eof:
            self.on_message_complete()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self.lost:
            return
        self.leave()
        if self.drained is not None and not self.drained.done():
            self.drained.set_result(None)
        stale = self.served > 0 and not self.heard
        reason = f": {error}" if error else ""
        self._fail(
            Failure("closed", f"{self.pool.name} closed the connection{reason}", reached=self.written, stale=stale)
        )
        if self.uploading is not None:
            self.uploading.cancel()

    def pause_writing(self) -> None:
        self.drained = self.loop.create_future()

    def resume_writing(self) -> None:
        if self.drained is not None and not self.drained.done():
            self.drained.set_result(None)
        self.drained = None

    # -- A request ---------------------------------------------------------------------------------------------------

    async def ask(
        self,
        method: bytes,
        target: bytes,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes | AsyncIterator[bytes],
        length: int | None,
        wait: float,
    ) -> Answer:
        lines = [b"%b %b HTTP/1.1" % (method, target), b"host: %b" % self.pool.authority, *map(b": ".join, headers)]
        text = b"".join(lines)
        if b"\n" in text or b"\r" in text or b"\0" in text:  # the server would read other lines, or another request
            raise ValueError("a line of a request contains CR, LF or NUL")
        first = b""  # part of the body
        if not isinstance(body, bytes):
            lines.append(b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length)
        elif body or method not in NOBODY_NEEDS_LENGTH:
            lines.append(b"content-length: %d" % len(body))
            first = body
        if self.parser is None:
            self.parser = httptools.HttpResponseParser(self)
        self.headers: Headers = []
        self.bodiless = method == b"HEAD"
        self.heard = False
        self.unfinished = 0
        self.written = True
        self.head = self.loop.create_future()
        self.wait = wait
        self.deadline = self.loop.time() + wait
        self.transport.write(b"\r\n".join((*lines, b"", first)))
        if not isinstance(body, bytes):
            self.deadline = NEVER  # until the body is written
            self.uploading = self.loop.create_task(self._upload(body, length))
        return await self.head

    async def _upload(self, body: AsyncIterator[bytes], length: int | None) -> None:
        try:
            left = length
            async for part in body:
                if not part:
                    continue
                if left is not None:
                    left -= len(part)
                self.transport.write(b"%x\r\n%b\r\n" % (len(part), part) if length is None else part)
                while self.drained is not None and not self.lost:
                    self.deadline = self.loop.time() + self.wait
                    await asyncio.shield(self.drained)
                    self.deadline = NEVER
                if self.lost:
                    return
            if left:
                raise ValueError(f"the length of the body differs from its Content-Length, {length}")
            if length is None:
                self.transport.write(b"0\r\n\r\n")
            self.uploading = None
            if self.head is not None:
                self.deadline = self.loop.time() + self.wait
        except Exception as error:
            # The request is incomplete, so the server does nothing. The caller gets the error.
            head, self.head = self.head, None
            if head is not None and not head.done():
                head.set_exception(error)
            self.abort()

    # -- The answer (callbacks of httptools) -------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.headers = []
        self.until_eof = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head is None:
            return  # trailers
        self.headers.append((name.lower(), value))
        if len(self.headers) > MOST_FIELDS:
            self._head_too_large()

    def on_headers_complete(self) -> None:
        assert self.parser is not None
        status = self.parser.get_status_code()
        if status == 101:
            self.rest = b""  # httptools reports the answer's end, but the connection is not free for another request
        elif 100 <= status < 200:
            return
        self.unfinished = 0
        length: int | None = None
        for name, value in self.headers:
            if name == b"content-length":
                length, self.until_eof = int(value), False
            elif name == b"transfer-encoding":
                length, self.until_eof = None, False
        if self.bodiless or status in BODILESS or status == 101:
            length, self.until_eof = 0, False
        self.ending = self.ending or self.until_eof or not self.parser.should_keep_alive()
        head = self.head
        if head is None or head.done():  # the caller gave up
            self.abort()
            return
        self.body = Body(self, length)
        head.set_result(Answer(self, status, self.headers, self.body))
        self.head = None
        self.deadline = self.loop.time() + self.pool.waits.silence
        if self.bodiless:
            # The answer to a HEAD announces a body that never comes. httptools would wait for it.
            self.parser = None
            self._answered()

    def on_body(self, part: bytes) -> None:
        self.unfinished = 0
        if self.body is not None:
            self.deadline = self.loop.time() + self.pool.waits.silence
            self.body.feed(part)

    def on_message_complete(self) -> None:
        if self.head is not None:
            return  # the answer follows a 1xx
        self._answered()

    def _answered(self) -> None:
        body, self.body = self.body, None
        if body is None:
            return
        self.served += 1
        body.end()
        self.deadline = NEVER
        if self.uploading is not None:  # the server did not wait for the whole request
            self.abort()
        elif self.rest is None:
            self._release()

    def _release(self) -> None:
        """Return the connection to the pool after a request."""
        if not (self.pool.keeps(self.tls) and self.is_usable()):
            self.abort()
            return
        self.deadline = self.loop.time() + self.pool.waits.idle
        self.pool.idle.append(self)
        self.pool.freed(closed=False)

    # -- Bodies (http1.body.Source) ----------------------------------------------------------------------------------

    def pause_body(self) -> None:
        if not self.lost:
            self.transport.pause_reading()
            self.deadline = NEVER  # our own reader is slow, not the server

    def resume_body(self) -> None:
        if not self.lost:
            self.transport.resume_reading()
            self.deadline = self.loop.time() + self.pool.waits.silence

    def want_body(self) -> None:
        pass

    # -- The end -----------------------------------------------------------------------------------------------------

    def hand_over(self) -> tuple[asyncio.Transport, bytes]:
        if not self.lost:
            self.leave()
            self.transport.resume_reading()
        return self.transport, self.rest or b""

    def leave(self) -> None:
        """Leaves the pool. Its place there is free for another connection."""
        if not self.lost:
            self.lost = True
            self.pool.connections.discard(self)
            self.pool.deadlines.discard(self)
            self.pool.freed(closed=True)

    def abort(self) -> None:
        self.ending = True
        if not self.lost:
            self.transport.abort()

    def _head_too_large(self) -> None:
        self._fail(Failure("malformed", f"the head of the answer of {self.pool.name} is too large", reached=True))
        self.abort()

    def _fail(self, failure: Failure) -> None:
        head, self.head = self.head, None
        if head is not None and not head.done():
            head.set_exception(failure)
        body, self.body = self.body, None
        if body is not None:
            body.fail(failure)

    def expire(self, now: float) -> None:
        self.deadline = NEVER
        if self.head is not None:
            self._fail(Failure("timeout", f"{self.pool.name} did not answer within {self.wait:g} s", reached=True))
        elif self.body is not None:
            self._fail(Failure("timeout", f"{self.pool.name} stopped in the middle of an answer", reached=True))
        elif self in self.pool.idle:
            self.pool.idle.remove(self)
        self.abort()
