"""Traces of OpenTelemetry, if it is installed: a record carries the trace of its append to a consumer as `meta.traceparent`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

try:
    trace: Any = import_module("opentelemetry.trace")
except ImportError:
    trace = None

TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def stamped(meta: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the meta of a record with the trace of the current span, if there is one and the application has given none."""
    if trace is None or (meta and "traceparent" in meta):
        return meta
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return meta
    traceparent = f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags:02x}"
    return {**(meta or {}), "traceparent": traceparent}


@contextmanager
def consumed(record: Any, topic: str | None = None) -> Iterator[None]:
    """Runs a block in a span that continues the trace of a record or job. Workers do it for their function.

    `topic`: its name, if the record does not have it, as a record of `follow`.
    """
    if trace is None:
        yield
        return
    name = topic or getattr(record, "topic", None) or "topic"
    attributes = {
        "messaging.system": "topics",
        "messaging.destination.name": name,
        "messaging.message.id": str(record.seq),
    }
    tracer = trace.get_tracer("topics_client")
    with tracer.start_as_current_span(
        f"process {name}", context=context_of(record.meta), kind=trace.SpanKind.CONSUMER, attributes=attributes
    ):
        yield


def context_of(meta: dict[str, Any] | None) -> Any:
    """Returns the context that a record carries, or None for a trace of its own."""
    found = TRACEPARENT.fullmatch(str((meta or {}).get("traceparent")))
    if found is None:
        return None
    trace_id, span_id, flags = (int(each, 16) for each in found.groups())
    remote = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))
