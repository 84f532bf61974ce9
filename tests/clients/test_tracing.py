"""The trace of an append reaches the function of a worker, and a loop, through a record."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from topics_client import Topics
from topics_client.tracing import consumed

from tests.instances import Instance
from tests.watch.wire import new_name


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def test_a_trace_goes_through_a_record_to_its_consumer(server: Instance, spans: InMemorySpanExporter) -> None:
    queue, log = new_name(), new_name()
    with Topics(server.url) as topics:
        topics.topic(queue).configure(type="queue")
        worker = topics.worker(queue)
        inside: list[Any] = []

        @worker
        def work(job: Any) -> None:
            inside.append(trace.get_current_span().get_span_context().trace_id)
            worker.stop()

        with trace.get_tracer("shop").start_as_current_span("place") as placing:
            topics.topic(queue).append(1, meta={"by": "ada"})
            with topics.topic(log).batch() as batch:
                batch.append(2)
        topics.topic(log).append(3)
        worker.run()
        first, second = topics.topic(log).read().records
        with consumed(first, log):
            inside.append(trace.get_current_span().get_span_context().trace_id)
    placed = placing.get_span_context()
    assert inside == [placed.trace_id] * 2
    assert second.meta is None  # no span, no trace
    processed = [span for span in spans.get_finished_spans() if span.name.startswith("process")]
    assert [span.name for span in processed] == [f"process {queue}", f"process {log}"]
    assert all(span.parent and span.parent.span_id == placed.span_id for span in processed)
