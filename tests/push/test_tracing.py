"""One trace from a publisher to a callback, and the spans that a collector gets over OTLP."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from base.tracing import EXPORTERS, Tracing, is_installed
from tests.api.clients import HttpClient
from tests.instances import ROOT, WHOLE, Instance, start, until
from tests.project.test_settings import GOOD
from tests.push.bus import new_client, new_topic, url
from tests.push.receiver import Receiver

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{CALLER}-01", f"00-{TRACE}-{CALLER}-00"


class Collector:
    """An OTLP collector over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            self.services |= {
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            }
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def of(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name and span.trace_id.hex() == TRACE]

    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def instance(settings_of_bus: dict[str, str], collector: Collector) -> Iterator[Instance]:
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url(), "OTEL_BSP_SCHEDULE_DELAY": "100"}
    traced = {"OTEL_TRACES_SAMPLER": "parentbased_always_off", "TOPICS_TRACE_RECORDS": "1"}
    with start(**WHOLE, **settings_of_bus, **asked, **traced) as found:
        yield found


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_trace_goes_from_a_publisher_to_a_callback(
    instance: Instance, collector: Collector, receiver: Receiver
) -> None:
    publisher, subscriber, topic = new_client(instance), new_client(instance), new_topic()
    subscriber.subscribe(topic, callback=receiver.url(), max=1)
    publisher.call("POST", f"/topics/{topic}", {"type": "create", "url": url(1)}, traceparent=SAMPLED)
    until(lambda: receiver.of("/events"), "the callback")
    [published] = until(lambda: collector.of("POST /topics/<str:topic>"), "the publisher's span")
    [called] = until(lambda: collector.of("POST callback"), "the callback's span")
    assert (published.parent_span_id.hex(), called.parent_span_id) == (CALLER, published.span_id)
    assert receiver.of("/events")[0].headers["traceparent"] == f"00-{TRACE}-{called.span_id.hex()}-01"
    assert attributes(called)["http.response.status_code"] == 200
    assert attributes(published)["http.response.status_code"] == 204
    assert collector.services == {"topics"}


def test_a_record_has_its_trace_behind_a_router(instance: Instance, collector: Collector) -> None:
    client = HttpClient(instance.port)
    client.put("/v0/topics/traced", {})
    client.put("/v0/routers/traced", {"source": "traced", "dest": "traced-dest"})
    records = [
        {"data": 1},
        {"data": 2, "meta": {"a": 1}},
        {"data": 3, "meta": {"traceparent": "mine"}},
        {"data": 4, "meta": {}},
    ]
    done = client.post("/v0/topics/traced", {"records": records, "idempotency_key": "k"}, traceparent=SAMPLED)
    own = done.headers["traceparent"]
    [span] = until(lambda: collector.of("POST /v0/topics/<str:topic>"), "the append's span")
    assert own == f"00-{TRACE}-{span.span_id.hex()}-01"
    again = client.post("/v0/topics/traced", {"records": records, "idempotency_key": "k"}, traceparent=UNSAMPLED)
    assert again.json["deduped"]

    def metas() -> list[Any]:
        read = client.post("/v0/topics/traced-dest/diff", {"from_seq": 0}).json["records"]
        return [each.get("meta") for each in read] if len(read) == 4 else []

    found = until(metas, "the forwarded records")
    traces = [{name: value for name, value in each.items() if name != "_topics_router"} for each in found]
    assert traces == [{"traceparent": own}, {"traceparent": own, "a": 1}, {"traceparent": "mine"}, {}]


def test_a_forward_continues_the_trace_of_its_append(instance: Instance, collector: Collector) -> None:
    """Two hops, each a step of its own. Nothing reads the dests: a read would forward the records itself."""
    client = HttpClient(instance.port)
    for name, source, dest in (("hop-1", "traced-in", "traced-by"), ("hop-2", "traced-by", "traced-out")):
        client.put(f"/v0/topics/{source}", {})
        client.put(f"/v0/routers/{name}", {"source": source, "dest": dest})
    done = client.post("/v0/topics/traced-in", {"records": [{"data": 1}, {"data": 2}]}, traceparent=SAMPLED)
    parent = done.headers["traceparent"].split("-")[2]

    def hops() -> list[Any]:
        return [span for span in collector.of("forward") if span.parent_span_id.hex() == parent]

    until(lambda: len(hops()) == 2, "a span of each hop")
    assert len({attributes(span)["topics.source_id"] for span in hops()}) == 2


def test_a_forward_of_several_appends_has_links_to_their_traces(instance: Instance, collector: Collector) -> None:
    client = HttpClient(instance.port)
    client.put("/v0/topics/linked", {})
    router = {"source": "linked", "dest": "linked-dest"}
    client.put("/v0/routers/linked", {**router, "paused": True})
    wanted = set()
    for n in range(3):
        trace = f"{n + 1:032x}"
        done = client.post("/v0/topics/linked", {"records": [{"data": n}]}, traceparent=f"00-{trace}-{CALLER}-01")
        wanted.add((trace, done.headers["traceparent"].split("-")[2]))
    client.post("/v0/topics/linked", {"records": [{"data": "no trace"}]})
    client.put("/v0/routers/linked", {**router, "paused": False})

    def linked() -> list[set[tuple[str, str]]]:
        spans = [span for span in collector.spans if span.name == "forward"]
        return [{(link.trace_id.hex(), link.span_id.hex()) for link in span.links} for span in spans]

    until(lambda: wanted in linked(), "a span with links to three traces")


def test_what_is_not_sampled_leaves_no_trace(instance: Instance, collector: Collector) -> None:
    client = HttpClient(instance.port)
    for headers in ({}, {"traceparent": UNSAMPLED}):
        client.post("/v0/topics/untraced", {"records": [{"data": 1}]}, **headers)
    read = client.post("/v0/topics/untraced/diff", {"from_seq": 0}).json["records"]
    assert [each.get("meta") for each in read] == [None, None]
    client.get("/v0/topics/untraced", traceparent=SAMPLED)
    until(lambda: collector.of("GET /v0/topics/<str:topic>"), "a later span")
    assert [
        each
        for each in collector.spans
        if dict(attributes(each)).get("url.path") == "/v0/topics/untraced" and each.name.startswith("POST")
    ] == []


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "expected otlp, console or none"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "expected one of always_on"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "expected http/protobuf"),
        ("OTEL_TRACES_SAMPLER_ARG", "2", "expected a number from 0 to 1"),
    ],
)
def test_a_variable_that_cannot_be_honoured_is_refused(name: str, value: str, told: str) -> None:
    on = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio", name: value}
    code = "import topics_project.settings"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **GOOD, **on}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"topics: Invalid {name}={value}: ")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("sampler", "decided"),
    [("parentbased_traceidratio", [True, False, True]), ("traceidratio", [True, True, False])],
)
def test_a_share_decides_as_the_caller_or_by_the_trace(sampler: str, decided: list[bool]) -> None:
    """All servers with one share sample the same traces, also those of new traces."""
    here = Tracing()
    here.configure(
        {"OTEL_TRACES_EXPORTER": "console", "OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": "0.5"}
    )
    here.processor = object()
    low, high = f"00-{'f' * 16}7{'f' * 15}-{CALLER}", f"00-{'0' * 15}18{'0' * 15}-{CALLER}"
    assert [here.sampled(each) for each in (f"{low}-01", f"{low}-00", f"{high}-01")] == decided
    assert {here.sampled() for _ in range(100)} == {True, False}
    assert all(int(here.start("GET", "SERVER", {}).trace[16:], 16) < 2**63 for _ in range(100))
    assert here.start("GET", "SERVER", {}, f"{low}-01").traceparent.startswith(f"00-{'f' * 16}7")


@pytest.mark.parametrize(
    ("share", "least", "most"), [("1", 9999, 9999), ("0.25", 2200, 2800), ("0", 0, 0), ("5e-324", 0, 0)]
)
def test_a_share_of_the_new_traces_is_sampled(share: str, least: int, most: int) -> None:
    here = Tracing()
    asked = {"OTEL_TRACES_EXPORTER": "console", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": share}
    here.configure(asked)
    here.processor = object()
    assert least <= sum(here.sampled() for _ in range(9999)) <= most


@pytest.mark.parametrize("module", [*EXPORTERS.values(), "opentelemetry.nothing", "nothing.at.all"])
def test_an_absent_library_is_noticed_before_the_start(module: str) -> None:
    assert is_installed(module) == (module in EXPORTERS.values())


def test_no_spans_are_loaded_unless_asked_for() -> None:
    """The client of Redis loads OpenTelemetry's metrics by itself, where they are installed."""
    code = """
import sys, topics_project.settings
from base.tracing import tracing
tracing.load()
print(tracing.sampled(), [name for name in sys.modules if name.startswith(("opentelemetry.sdk.trace", "opentelemetry.exporter"))])
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | GOOD
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "False []\n"
