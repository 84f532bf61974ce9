"""Reads the requests of one connection. httptools parses heads and frames bodies, and `length_of` refuses requests that httptools
accepts and a server must refuse. After an unreadable request nothing is read, because the start of the next request is unknown.
"""

from __future__ import annotations

import asyncio
import re
from enum import Enum, auto
from typing import Any, Protocol

import httptools

from http1.body import Body, Source
from http1.deadlines import NEVER
from http1.errors import Refused, malformed, too_large
from http1.exchanges import Exchange
from http1.limits import Limits, head_too_large
from http1.messages import Headers, Request

# httptools knows some 40 methods and fails on others. A request with a strange method must be read too, and get its own refusal.
# CONNECT is not replaced, because its target, a host and a port, is a target of no other method.
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")  # others: 501
USUAL = re.compile(rb"(?:\r?\n)*(?:%b) " % "|".join((*METHODS, "CONNECT")).encode())
STRANGE = re.compile(rb"((?:\r?\n)*)([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) ")
BEGUN = re.compile(rb"(?:\r?\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")  # a method without its end
LONGEST_METHOD = 80  # bytes, with the line ends before it


class ReaderState(Enum):
    BETWEEN = auto()  # between two requests
    METHOD = auto()  # the beginning of a head has arrived, without a whole method
    HEAD = auto()
    BODY = auto()
    RESUMING = auto()  # a new parser reads a head of ours, so that it continues in the middle of a body
    UPGRADE = auto()  # the bytes behind a request to upgrade wait for its answer
    STOPPED = auto()  # nothing is read any more


# A name of this module is looked up in a ninth of the time of a member of an enum.
BETWEEN, METHOD, HEAD, BODY, RESUMING, UPGRADE, STOPPED = ReaderState


class ReadConnection(Source, Protocol):
    """The connection of a reader. `add` gets each request when its head has arrived."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    deadline: float
    origin: str
    state: dict[str, Any]

    @property
    def is_draining(self) -> bool: ...
    def add(self, exchange: Exchange) -> None: ...
    def add_upgrade(self, exchange: Exchange) -> None: ...
    def add_refusal(self, refusal: Refused) -> None: ...


class RequestReader:
    """The requests of one connection. `current`: the request with a body that is still arriving.

    | state         | event                                        | next                                   |
    |---------------|----------------------------------------------|----------------------------------------|
    | BETWEEN       | a part of a method arrives                   | METHOD                                 |
    | BETWEEN,      | a head begins                                | HEAD                                   |
    | METHOD        |                                              |                                        |
    | HEAD          | the head is complete                         | BODY                                   |
    | BODY          | the body is complete                         | BETWEEN                                |
    | BODY          | it ends a request to upgrade                 | UPGRADE, or RESUMING if it has a body  |
    | RESUMING      | the new parser has read our head             | BODY                                   |
    | UPGRADE       | the handler declines                         | BETWEEN                                |
    | each          | the request is refused, or the answers end   | STOPPED                                |
    """

    def __init__(self, connection: ReadConnection) -> None:
        self.connection, self.limits = connection, connection.limits
        self.most_bytes, self.most_fields = self.limits.head_bytes, self.limits.head_fields  # of a head
        self.parser = httptools.HttpRequestParser(self)
        self.state = BETWEEN
        self.current: Request | None = None
        self.last: Exchange | None = None  # the exchange of the last request
        self.heads: list[Request] = []  # the requests that began in the data that are being parsed
        self.headers: Headers = []
        self.target = b""
        self.method = b""  # in METHOD: the beginning of the head
        self.strange = ""  # a method that httptools does not know
        self.rest = b""  # in UPGRADE: the bytes behind the request
        self.head_size = 0
        # Bytes since a head began, or since the last part of a body. Those of a line that has not ended count, too.
        self.unfinished = 0
        self.arrived = 0  # bytes of a body since its deadline was set
        self.refusal: Refused | None = None  # raised while httptools parses

    def receive(self, data: bytes) -> None:
        """Reads data of the client. A head has its deadline from its first byte on."""
        before = self.state
        if before is UPGRADE:
            self.rest += data
            return
        is_between = before is BETWEEN or before is METHOD
        if is_between and (before is METHOD or not USUAL.match(data)):
            data = self.readable(self.method + data)
        self.unfinished += len(data)
        if data:
            self.feed(data, is_between)
        if self.state is not BETWEEN:
            self.bound(before)

    def bound(self, before: ReaderState) -> None:
        """Bounds a request that has not arrived whole. `before`: the state before the last data."""
        if self.unfinished > self.most_bytes and self.state in (HEAD, BODY):
            self.refuse(head_too_large(self.limits))
        if self.state in (METHOD, HEAD) and (before not in (METHOD, HEAD) or self.connection.deadline == NEVER):
            self.connection.deadline = self.connection.loop.time() + self.limits.head_seconds

    def readable(self, data: bytes) -> bytes:
        """Returns data that httptools can read: a method that it does not know is replaced. Returns b"" in METHOD."""
        self.method, self.state = b"", BETWEEN
        if USUAL.match(data):
            return data
        if found := STRANGE.match(data):
            self.strange = found[2].decode("ascii")
            return b"%bPATCH%b" % (found[1], data[found.end(2) :])
        if b" " in data or len(data) > LONGEST_METHOD or b"\n" in data.lstrip(b"\r\n"):
            return data  # httptools refuses the data with a reason
        self.method, self.state = data, METHOD
        return b""

    def feed(self, data: bytes, is_between: bool) -> None:
        """Parses data. `is_between`: `data` begins with a request."""
        self.heads = []
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            is_method = isinstance(error, httptools.HttpParserInvalidMethodError)
            if is_between and is_method and self.is_strange_behind(data):
                return
            # Data after the last request of a connection are ignored, and cause no refusal.
            if self.state is not BETWEEN or self.last is None or not self.last.ends:
                self.refuse(self.refusal or malformed(f"the request is not valid HTTP/1.1: {error}"))
        else:
            if is_between and self.state is HEAD and not self.target:
                self.is_strange_behind(data)

    def is_strange_behind(self, data: bytes) -> bool:
        """Continues at an unknown method, whole or partial, after the requests of `data`. Returns whether `data` has one."""
        rest = behind(data, self.heads)
        if self.current is not None or not (STRANGE.match(rest) or BEGUN.fullmatch(rest)):
            return False
        self.renew(self.readable(rest))
        return True

    def upgraded(self, rest: bytes) -> None:
        """Handles a request to upgrade, where httptools stops reading.

        Without a body, the handler decides. A request with a body is not a WebSocket, so the connection ignores the upgrade.
        """
        if self.current is not None:
            self.renew(rest)
        else:
            assert self.last is not None
            self.state, self.rest = UPGRADE, rest
            self.connection.add_upgrade(self.last)

    def declined(self) -> bytes:
        """Continues behind a request to upgrade. Returns the bytes behind it, which the caller passes to `receive`."""
        rest, self.rest, self.state = self.rest, b"", BETWEEN
        self.renew(b"")
        return rest

    def renew(self, rest: bytes) -> None:
        """Parses `rest` with a new parser, from the start of the current request's body or from the next request."""
        self.parser = httptools.HttpRequestParser(self)
        if self.current is not None:
            length = self.current.body.length
            framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
            self.state = RESUMING
            self.parser.feed_data(b"POST / HTTP/1.1\r\nhost: x\r\n%b\r\n\r\n" % framing)
            self.state = BODY
        if rest:
            self.feed(rest, self.current is None)

    def refuse(self, refusal: Refused) -> None:
        """Refuses data, and stops reading. The refusal is sent after the answers to earlier requests."""
        current, self.current, self.state = self.current, None, STOPPED
        if current is None:
            self.connection.add_refusal(refusal)
            return
        # The current request has a handler, or will have one. The handler gets the error when it reads the body.
        current.body.fail(refusal)
        assert self.last is not None
        self.last.ends = True

    def stop(self) -> None:
        self.current, self.state = None, STOPPED

    def cut_off(self) -> None:
        """No more data can arrive."""
        if self.current is not None:
            self.current.body.fail(malformed("the body is incomplete"))

    # -- Called by httptools -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.state is not RESUMING:
            self.headers, self.target, self.head_size, self.unfinished = [], b"", 0, 0
            self.state = HEAD

    def on_url(self, url: bytes) -> None:
        if self.state is not RESUMING:
            self.target += url
            self.head_size += len(url)
            if self.head_size > self.most_bytes:
                raise self.too_large()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.state is RESUMING:
            return
        self.head_size += len(name) + len(value) + 4
        if self.head_size > self.most_bytes or len(self.headers) >= self.most_fields:
            raise self.too_large()
        if self.state is HEAD:  # trailers are ignored
            self.headers.append((name.lower(), value))

    def too_large(self) -> Refused:
        self.refusal = head_too_large(self.limits)
        return self.refusal

    def on_headers_complete(self) -> None:
        if self.state is RESUMING:
            return
        try:
            request = self.request()
        except Refused as refusal:
            self.refusal = refusal
            raise
        self.state, self.current, self.arrived, self.unfinished = BODY, request, 0, 0
        self.connection.deadline = NEVER  # the head's deadline is no longer valid
        self.heads.append(request)
        self.last = Exchange(request)
        self.connection.add(self.last)

    def on_body(self, part: bytes) -> None:
        assert self.current is not None
        self.arrived += len(part)
        self.unfinished = 0
        body, most = self.current.body, self.limits.body_bytes
        if body.size + len(part) > most:
            self.refusal = too_large(most)
            raise self.refusal
        body.feed(part)

    def on_message_complete(self) -> None:
        request = self.current
        # httptools regards a request to upgrade as complete after its head. Another parser reads its body (upgraded).
        if request is not None and not (self.parser.should_upgrade() and request.body.length != 0):
            request.body.end()
            self.current, self.state = None, BETWEEN

    def request(self) -> Request:
        """Returns the request of the head that was just read. Raises Refused."""
        connection, version = self.connection, self.parser.get_http_version()
        length = length_of(self.headers, version)
        if length is not None and length > self.limits.body_bytes:
            raise too_large(self.limits.body_bytes)
        method, self.strange = self.strange or self.parser.get_method().decode("ascii"), ""
        if method == "CONNECT":
            raise Refused(405, "method_not_allowed", "this server is not a proxy: CONNECT is not allowed")
        if method not in METHODS:
            raise Refused(501, "invalid_request", f"unknown method {method}: expected {', '.join(METHODS)}")
        return Request(
            method,
            self.target,
            self.headers,
            Body(connection, length),
            version=version,
            keep_alive=self.parser.should_keep_alive() and not connection.is_draining,
            is_upgrade=self.parser.should_upgrade() and length == 0,
            origin=connection.origin,
            state=connection.state,
        )


def length_of(headers: Headers, version: str) -> int | None:
    """Returns the length of a body, or None for a chunked body. Raises Refused for a head that two readers could read
    differently."""
    length: int | None = 0
    hosts = 0
    coded = False
    for name, value in headers:
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
    if version not in ("1.1", "1.0"):
        raise Refused(505, "invalid_request", f"HTTP/{version} is not supported: send HTTP/1.1")
    if hosts > 1 or (not hosts and version == "1.1"):
        raise malformed("expected exactly one Host header")
    if coded and version == "1.0":
        raise malformed("HTTP/1.0 does not support Transfer-Encoding: send Content-Length")
    return None if coded else length


def behind(data: bytes, requests: list[Request]) -> bytes:
    """Returns the bytes behind the requests at the beginning of `data`. Returns b"" if an end is not certain (chunks)."""
    at = 0
    for request in requests:
        while data[at : at + 1] in (b"\r", b"\n"):
            at += 1
        end = data.find(b"\r\n\r\n", at)
        if request.body.length is None or end < 0:
            return b""
        at = end + 4 + request.body.length
    return data[at:] if requests else b""
