"""A span of OpenTelemetry for each sampled request (base/tracing.py)."""

from __future__ import annotations

from collections.abc import Awaitable

from base.tracing import tracing
from http1 import Answering, Request, Response
from wire.access.hosts import PROBES
from wire.observers.observer import Observer
from wire.observers.request_log import context_of


class Traced(Observer[None]):
    """Continues the trace of a caller, or begins one. A stream's span ends with the stream. Probes have no span."""

    def __call__(self, request: Request) -> Answering | Awaitable[Answering]:
        # All requests pass here. For a request without the header, this looks the header up and calls the sampler: 0.2 µs.
        parent = parent_of(request) if b"traceparent" in request.by_name else None
        if not tracing.sampled(parent) or path_of(request) in PROBES:
            return self.handler(request)
        return super().__call__(request)

    def began(self, request: Request) -> None:
        attributes = {"http.request.method": request.method, "url.path": path_of(request)}
        request.span = tracing.start(request.method, "SERVER", attributes, parent_of(request))

    def ended(self, request: Request, answer: Response | None, note: None) -> None:
        span = request.span
        if route := context_of(request).route:
            span.name = f"{request.method} {route}"
            span.attributes["http.route"] = route
        status = 0 if answer is None else answer.status
        if status:
            span.attributes["http.response.status_code"] = status
        span.end(str(status) if status >= 500 else "")


def parent_of(request: Request) -> str | None:
    given = request.header(b"traceparent")
    return None if given is None else given.decode("latin-1")


def path_of(request: Request) -> str:
    """Returns the path without the query, which may contain a key."""
    return request.target.partition(b"?")[0].decode("latin-1")
