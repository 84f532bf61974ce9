"""The ids of a request, and the log of requests (TOPICS_LOG, TOPICS_SLOW_MS).

Each answer has the request's `x-request-id`, which the client can choose, and continues its W3C `traceparent`. So a line of this
log, an answer and the log of a client can be found by each other.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import secrets
import time
from typing import Any

import msgspec

from base.tracing import TRACEPARENT
from http1 import Handler, Request, Response
from wire.access.keys import Key
from wire.endpoint import Call
from wire.observers.observer import Observer

log = logging.getLogger("topics.requests")
CHOSEN = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
PERFORMANCE = b'"performance":'  # the last field of an answer
Headers = dict[bytes, bytes]


class Context:
    """The app's knowledge of a request: the route, the holder (wire/limits.py) after its key is checked, and its call after the
    body has arrived, at the time `called`."""

    __slots__ = ("call", "called", "holder", "route")

    def __init__(self, route: str) -> None:
        self.route, self.holder, self.called = route, "", 0.0
        self.call: Call[Any, Any] | None = None


NONE = Context("")  # of a request that got no call


class Ids:
    """The ids of a process's requests: a random beginning, and a number."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Choose the random beginning. A fork does this, so that two processes give no id twice."""
        self.start, self.numbers = secrets.token_hex(6).encode(), itertools.count(1)

    def next(self) -> bytes:
        return b"%b-%x" % (self.start, next(self.numbers))


ids = Ids()
os.register_at_fork(after_in_child=ids.begin)


def identify(request: Request) -> None:
    """Add the request's ids to its answer, whichever part of the server makes the answer.

    If the request has a span, the span's id replaces the caller's id in `by_name`. So records and callbacks continue the span.
    """
    headers = request.by_name
    chosen = headers.get(b"x-request-id")
    request.added.append((b"x-request-id", chosen if chosen and CHOSEN.fullmatch(chosen) else ids.next()))
    if request.span is not None:
        headers[b"traceparent"] = request.span.traceparent.encode()
        request.added.append((b"traceparent", headers[b"traceparent"]))
    elif (given := headers.get(b"traceparent")) and (found := TRACEPARENT.fullmatch(given.decode("latin-1"))):
        request.added.append((b"traceparent", f"00-{found[1]}-{secrets.token_hex(8)}-{found[3]}".encode()))


class RequestLog(Observer[float]):
    """Logs each request, or only the slow ones. A stream has a line at its end."""

    def __init__(self, handler: Handler, *, every: bool, slow_ms: int) -> None:
        """`slow_ms`: a call that took longer is a warning with the parts of its time. 0: no call is slow."""
        super().__init__(handler)
        self.every, self.slow_ms = every, slow_ms

    def began(self, request: Request) -> float:
        return time.perf_counter()

    def ended(self, request: Request, answer: Response | None, started: float) -> None:
        if answer is not None:
            self.note(request, answer, started)
        elif self.every:
            write(logging.INFO, described(request, started))

    def note(self, request: Request, answer: Response, started: float) -> None:
        ms = (time.perf_counter() - started) * 1000
        is_slow = 0 < self.slow_ms < ms - asked_to_wait(request)
        if not self.every and not is_slow:
            return
        body = answer.body if isinstance(answer.body, bytes) else b""
        fields = described(request, started) | {"status": answer.status, "bytes": len(body)}
        if is_slow:
            fields["slow"] = parts(request, started, body)
        write(logging.WARNING if is_slow else logging.INFO, fields)


def described(request: Request, started: float) -> dict[str, Any]:
    """Returns the fields of a line. The query is left out, because it may contain a key."""
    context = context_of(request)
    fields: dict[str, Any] = {
        "method": request.method,
        "route": context.route or request.target.partition(b"?")[0].decode("latin-1"),
        "ms": ms_since(started),
    }
    return fields | identity(request, None if context.call is None else context.call.key)


def ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def identity(request: Request, key: Key | None) -> dict[str, Any]:
    """Returns the fields that identify a request: its ids, and the name of its key."""
    added = dict(request.added)
    fields: dict[str, Any] = {"request_id": added.get(b"x-request-id", b"").decode()}
    if key is not None and (name := key.name or key.id):
        fields["key"] = name
    if b"traceparent" in added:
        fields["trace_id"] = added[b"traceparent"].decode().split("-")[1]
    return fields


def context_of(request: Request) -> Context:
    return request.context or NONE


def asked_to_wait(request: Request) -> float:
    """Returns the milliseconds that a long poll asked to wait."""
    read = [getattr(context_of(request).call, name, None) for name in ("body", "query")]
    return max(float(getattr(each, "wait_ms", 0)) for each in read)


def parts(request: Request, started: float, body: bytes) -> dict[str, Any]:
    """Returns where the time of a slow call went: the wait for its body, and what the answer says of itself."""
    found: dict[str, Any] = {}
    if called := context_of(request).called:
        found["body_ms"] = round((called - started) * 1000, 3)
    return found | performance_in(body)


def performance_in(body: bytes) -> dict[str, Any]:
    """Returns the field `performance` of an answer, or an empty one: a record or the schema can have the same name elsewhere."""
    at = body.rfind(PERFORMANCE)
    try:
        return {} if at < 0 else msgspec.json.decode(body[at + len(PERFORMANCE) : -1], type=dict[str, int | float])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def write(level: int, fields: dict[str, Any]) -> None:
    """Log a line. In the plain form, each field is `name=value`."""
    log.log(level, "%s", " ".join(f"{name}={value}" for name, value in fields.items()), extra={"fields": fields})
