"""Spans of OpenTelemetry, if its standard variables ask for them (docs/guides/monitoring.md). Otherwise nothing of it is loaded.

OpenTelemetry's library takes 7 µs for a span that is not sampled, a tenth of a call's time. So `sampled` decides before a span
exists, and each span that begins is exported. A random number for each decision would take half of the decision's time. So one
random number says how many requests come before the next sampled one. The library takes 120 µs for one sampled span between other
work, because its code is in no cache. So a span is a small object of our own, and the exporter's thread converts a batch of
spans.
"""

from __future__ import annotations

import math
import os
import random
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from base.refusal import Refusal

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

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


class Span:
    """A span. The exporter gets the span at its end. Until then, the caller can change the name and the attributes."""

    __slots__ = (
        "attributes",
        "caller",
        "ended_ns",
        "error",
        "id",
        "kind",
        "links",
        "name",
        "processor",
        "started_ns",
        "trace",
    )
    context = SimpleNamespace(trace_flags=SimpleNamespace(sampled=True))  # all that the library's processors ask for

    def __init__(
        self,
        processor: Any,
        name: str,
        kind: str,
        attributes: dict[str, str | int],
        trace: str,
        caller: str | None,
        links: Sequence[str],
        started_ns: int,
    ) -> None:
        """`trace`: its id. `caller`: the id of the caller's span in this trace."""
        self.processor, self.name, self.kind, self.attributes = processor, name, kind, attributes
        self.trace, self.id, self.caller, self.links = trace, f"{random.getrandbits(64) or 1:016x}", caller, links
        self.started_ns, self.ended_ns, self.error = started_ns, 0, ""

    @property
    def traceparent(self) -> str:
        """The header for calls within this span."""
        return f"00-{self.trace}-{self.id}-01"

    def end(self, error: str = "") -> None:
        """`error`: the reason of a failure."""
        self.error, self.ended_ns = error, time.time_ns()
        self.processor.on_end(self)


class Tracing:
    """The spans of one process."""

    def __init__(self) -> None:
        self.exporter, self.is_on = "none", False
        self.follows = True
        self.bound = 2**64  # a trace is sampled if the lower half of its id is below: the share of 1.0
        self.left = 1  # decisions without a parent until a sampled one
        self.processor: Any = None

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
        share = SHARES[name] if name in SHARES else share_of(given("OTEL_TRACES_SAMPLER_ARG", "1.0"))
        self.bound = round(share * 2**64)
        self.left = self.gap()
        if not is_installed(EXPORTERS[self.exporter]):
            raise Refusal(
                "OTEL_… asks for traces, but OpenTelemetry is absent: run pip install 'topics[otel]', "
                "or set OTEL_SDK_DISABLED=true."
            )

    def load(self) -> None:
        """Loads the library and begins to export. Each process calls this after the fork."""
        if not self.is_on or self.processor is not None:
            return
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

        if self.exporter == "console":
            self.processor = SimpleSpanProcessor(converting(ConsoleSpanExporter()))
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            self.processor = BatchSpanProcessor(converting(OTLPSpanExporter()))

    def close(self) -> None:
        """Exports the last spans. A silent collector would hold up the library for 30 s, so another thread waits for it."""
        if self.processor is not None:
            flushing = threading.Thread(target=self.processor.shutdown, daemon=True)
            flushing.start()
            flushing.join(FLUSH_SECONDS)

    def sampled(self, parent: str | None = None) -> bool:
        """Returns whether a new span is exported. `parent`: the caller's traceparent."""
        if self.processor is None:
            return False
        if parent is not None and (found := TRACEPARENT.fullmatch(parent)):
            return int(found[3], 16) & 1 == 1 if self.follows else int(found[1][16:], 16) < self.bound
        self.left -= 1
        if self.left > 0:
            return False
        self.left = self.gap()
        return self.bound > 0

    def gap(self) -> int:
        """Returns how many decisions to make until the next sampled one. Each has the share as its probability."""
        share = self.bound / 2**64
        if share == 0:
            return sys.maxsize
        return 1 if share == 1 else 1 + int(math.log(1 - random.random()) / math.log1p(-share))

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
        found = None if parent is None else TRACEPARENT.fullmatch(parent)
        trace, caller = (self.new_trace(), None) if found is None else (found[1], found[2])
        return Span(self.processor, name, kind, {**attributes}, trace, caller, links, started_ns or time.time_ns())

    def new_trace(self) -> str:
        """Returns the id of a sampled trace. Samplers of other servers with the same share sample this trace, too."""
        return f"{random.getrandbits(64) or 1:016x}{random.randrange(max(1, self.bound)):016x}"

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


def converting(exporter: SpanExporter) -> SpanExporter:
    """Returns the exporter for our spans."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

    class OneResource(Resource):
        """The resource of all spans. The encoder looks it up for each span, and a `Resource` is hashed as JSON: 9 µs."""

        __hash__ = object.__hash__

    found = Resource.create({} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "topics"})
    resource = OneResource(found.attributes, found.schema_url)
    scope, succeeded, failed = InstrumentationScope("topics"), Status(), Status(StatusCode.ERROR)
    export = exporter.export

    def context(trace: str, id: str, flags: int, is_remote: bool) -> SpanContext:
        return SpanContext(int(trace, 16), int(id, 16), is_remote, TraceFlags(flags))

    def converted(span: Span) -> ReadableSpan:
        causes = filter(None, map(TRACEPARENT.fullmatch, span.links))
        return ReadableSpan(
            span.name,
            context(span.trace, span.id, 1, is_remote=False),
            None if span.caller is None else context(span.trace, span.caller, 1, is_remote=True),
            resource,
            {**span.attributes, "error.type": span.error} if span.error else span.attributes,
            links=[Link(context(cause[1], cause[2], int(cause[3], 16), is_remote=True)) for cause in causes],
            kind=SpanKind[span.kind],
            status=failed if span.error else succeeded,
            start_time=span.started_ns,
            end_time=span.ended_ns,
            instrumentation_scope=scope,
        )

    exporter.export = lambda spans: export([converted(span) for span in spans])  # type: ignore[method-assign,arg-type]
    return exporter


tracing = Tracing()
