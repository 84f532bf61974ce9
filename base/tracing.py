"""Spans of OpenTelemetry, if its standard variables ask for them (docs/guides/monitoring.md). Otherwise nothing of it is loaded.

OpenTelemetry's library takes 7 µs for a span that is not sampled, a tenth of a call's time. So `sampled` decides before the
library is asked, and each span that begins is exported.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from base.refusal import Refusal

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span

# Version, id of the trace, id of the caller's span, flags. An id of zeros is invalid.
TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
SAMPLERS = ("always_on", "always_off", "traceidratio")  # each also as parentbased_…
SHARES = {"always_on": 1.0, "always_off": 0.0}  # of the samplers that need no argument
# The modules that each exporter needs.
EXPORTERS = {
    "otlp": "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "console": "opentelemetry.sdk.trace.export",
}
FLUSH_SECONDS = 2.0  # for the collector, at the end of a process
Attributes = Mapping[str, str | int]


class Tracing:
    """The spans of one process."""

    def __init__(self) -> None:
        self.exporter, self.is_on = "none", False
        self.follows, self.share = True, 1.0
        self.tracer: Any = None
        self.provider: Any = None

    def configure(self, environment: Mapping[str, str]) -> None:
        """Reads the variables. Raises Refusal for a variable that the process cannot honour."""

        def given(name: str, default: str = "") -> str:
            return environment.get(name, "").strip() or default

        has_address = given("OTEL_EXPORTER_OTLP_ENDPOINT") or given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        self.exporter = given("OTEL_TRACES_EXPORTER", "otlp" if has_address else "none")
        self.is_on = self.exporter != "none" and given("OTEL_SDK_DISABLED").lower() != "true"
        if not self.is_on:
            return
        if self.exporter not in EXPORTERS:
            raise Refusal(f"Invalid OTEL_TRACES_EXPORTER={self.exporter}: expected otlp, console or none.")
        protocol = given("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", given("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"))
        if protocol != "http/protobuf":
            raise Refusal(f"Invalid OTEL_EXPORTER_OTLP_PROTOCOL={protocol}: expected http/protobuf.")
        sampler = given("OTEL_TRACES_SAMPLER", "parentbased_always_on")
        name = sampler.removeprefix("parentbased_")
        if name not in SAMPLERS:
            raise Refusal(
                f"Invalid OTEL_TRACES_SAMPLER={sampler}: expected one of {', '.join(SAMPLERS)}, each also after parentbased_."
            )
        self.follows = name != sampler
        self.share = SHARES[name] if name in SHARES else share_of(given("OTEL_TRACES_SAMPLER_ARG", "1.0"))
        if not is_installed(EXPORTERS[self.exporter]):
            raise Refusal(
                "OTEL_… asks for traces, but OpenTelemetry is absent: run pip install 'topics[otel]', "
                "or set OTEL_SDK_DISABLED=true."
            )

    def load(self) -> None:
        """Loads the library and begins to export. Each process calls this after the fork."""
        if not self.is_on or self.tracer is not None:
            return
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "topics"}
        self.provider = TracerProvider(ALWAYS_ON, Resource.create(named), shutdown_on_exit=False)
        if self.exporter == "console":
            self.provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = self.provider.get_tracer("topics")

    def close(self) -> None:
        """Exports the last spans. A silent collector would hold up the library for 30 s, so another thread waits for it."""
        if self.provider is not None:
            flushing = threading.Thread(target=self.provider.shutdown, daemon=True)
            flushing.start()
            flushing.join(FLUSH_SECONDS)

    def sampled(self, parent: str | None = None) -> bool:
        """Returns whether a new span is exported. `parent`: the caller's traceparent."""
        if self.tracer is None:
            return False
        if parent is not None and self.follows and (found := TRACEPARENT.fullmatch(parent)):
            return int(found[3], 16) & 1 == 1
        return self.share >= 1 or random.random() < self.share

    def start(
        self,
        name: str,
        kind: str,
        attributes: Attributes,
        parent: str | None = None,
        links: Sequence[str] = (),
        started_ns: int | None = None,
    ) -> Span:
        """Begins a span, which its caller ends. `kind`: SERVER, CLIENT or INTERNAL. `links`: traceparents of other causes.

        `started_ns`: the time of its begin, in ns since the Unix epoch. None means now.
        """
        from opentelemetry.trace import SpanKind

        found: Span = self.tracer.start_span(
            name, within(parent), SpanKind[kind], attributes, list(filter(None, map(linked, links))), started_ns
        )
        return found

    def start_caused(
        self, name: str, kind: str, attributes: Attributes, causes: Sequence[str], started_ns: int | None = None
    ) -> Span | None:
        """Begins the span of work on a batch, if it is sampled. `causes`: the traceparents of the batch, each once.

        The span continues the trace of a single cause. Otherwise, the span has links to the traces.
        """
        if not any(map(self.sampled, causes or (None,))):
            return None
        parent = causes[0] if len(causes) == 1 else None
        return self.start(name, kind, attributes, parent, () if parent else causes, started_ns)


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is absent
        return False


def share_of(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise Refusal(f"Invalid OTEL_TRACES_SAMPLER_ARG={text}: expected a number from 0 to 1.")
    return share


def within(parent: str | None) -> Context:
    """Returns the context of a caller's span, or an empty one."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    context = span_context(parent)
    return Context() if context is None else set_span_in_context(NonRecordingSpan(context), Context())


def linked(traceparent: str) -> Link | None:
    from opentelemetry.trace import Link

    context = span_context(traceparent)
    return None if context is None else Link(context)


def span_context(traceparent: str | None) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    found = TRACEPARENT.fullmatch(traceparent or "")
    if found is None:
        return None
    return SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=TraceFlags(int(found[3], 16)))


def traceparent_of(span: Span) -> str:
    """Returns the header for the parts of a trace that this span causes."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def failed(span: Span, reason: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", reason)
    span.set_status(Status(StatusCode.ERROR))


tracing = Tracing()
