"""A span of OpenTelemetry for each sampled request (base/tracing.py)."""

from __future__ import annotations

from base.tracing import failed, tracing
from http1 import Request, Response
from wire.hosts import PROBES
from wire.observer import Observer
from wire.request_log import context_of


class Traced(Observer[None]):
    """Continues the trace of a caller, or begins one. A stream's span ends with the stream. Probes have no span."""

    def began(self, request: Request) -> None:
        if path_of(request) in PROBES:
            return
        given = request.header(b"traceparent")
        parent = None if given is None else given.decode("latin-1")
        if tracing.sampled(parent):
            attributes = {"http.request.method": request.method, "url.path": path_of(request)}
            request.span = tracing.start(request.method, "SERVER", attributes, parent)

    def ended(self, request: Request, answer: Response | None, note: None) -> None:
        if (span := request.span) is None:
            return
        if route := context_of(request).route:
            span.update_name(f"{request.method} {route}")
            span.set_attribute("http.route", route)
        if answer is not None:
            span.set_attribute("http.response.status_code", answer.status)
            if answer.status >= 500:
                failed(span, str(answer.status))
        span.end()


def path_of(request: Request) -> str:
    """Returns the path without the query, which may contain a key."""
    return request.target.partition(b"?")[0].decode("latin-1")
