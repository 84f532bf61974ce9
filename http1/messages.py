"""Requests and responses as values. Header names are lower case, names and values are bytes."""

from __future__ import annotations

import http
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from http1.body import Body

if TYPE_CHECKING:
    import asyncio

Headers = list[tuple[bytes, bytes]]
STATUS_LINES = {each.value: b"HTTP/1.1 %d %b\r\n" % (each.value, each.phrase.encode()) for each in http.HTTPStatus}
BODILESS = frozenset((204, 304))  # 1xx has no body either, but no handler answers 1xx


def status_line(status: int) -> bytes:
    return STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def find(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Returns the last value of a header, or None. Server and gateway both read a repeated header so."""
    found = None
    for each, value in headers:
        if each == name:
            found = value
    return found


class Request:
    """One request of a connection. `context`, `span` and `state` belong to the handler. A connection's requests share `state`.

    `by_name`: the headers by name, with the last value of a repeated header.
    `awaits_word`: the client may send the body only after `100 Continue`.
    `added`: more headers of the answer, whichever part of the server makes the answer.
    """

    __slots__ = (
        "added",
        "awaits_word",
        "body",
        "by_name",
        "context",
        "headers",
        "is_upgrade",
        "keep_alive",
        "method",
        "origin",
        "span",
        "state",
        "target",
        "version",
    )

    def __init__(
        self,
        method: str,
        target: bytes,
        headers: Headers,
        body: Body,
        *,
        version: str = "1.1",
        keep_alive: bool = True,
        is_upgrade: bool = False,
        origin: str = "",
        state: dict[str, Any] | None = None,
    ) -> None:
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.by_name = dict(headers)
        # RFC 9110, 10.1.1: a client of HTTP/1.0 would take the word for its answer.
        self.awaits_word = b"expect" in self.by_name and version != "1.0"
        self.version, self.keep_alive, self.is_upgrade, self.origin = version, keep_alive, is_upgrade, origin
        self.state = {} if state is None else state
        self.added: Headers = []
        self.context: Any = None
        self.span: Any = None

    @property
    def is_of_all(self) -> bool:
        """Whether it is `OPTIONS *`, which asks about the server and not about a path."""
        return self.target == b"*" and self.method == "OPTIONS"

    def header(self, name: bytes) -> bytes | None:
        return self.by_name.get(name)


class Response:
    """An answer. `body`: bytes, or an async iterator whose parts are sent as it yields them.

    With a `length`, an iterator is sent as that many bytes, otherwise in chunks. `close`: the connection ends after this answer.
    """

    __slots__ = ("body", "close", "headers", "length", "status")

    def __init__(
        self,
        status: int,
        headers: Iterable[tuple[bytes, bytes]] = (),
        body: bytes | AsyncIterator[bytes] = b"",
        *,
        length: int | None = None,
        close: bool = False,
    ) -> None:
        self.status, self.headers, self.body, self.length, self.close = status, headers, body, length, close


class Upgrade(Response):
    """A 101 that hands over the socket. `take_over(server, transport, rest)` is called after the answer is written.

    `rest`: the bytes that the client has sent behind its request. `take_over` must set its own protocol on the transport, and can
    make it a member of the server.
    """

    __slots__ = ("take_over",)

    def __init__(
        self, headers: Iterable[tuple[bytes, bytes]], take_over: Callable[[Any, asyncio.Transport, bytes], None]
    ) -> None:
        super().__init__(101, headers)
        self.take_over = take_over
