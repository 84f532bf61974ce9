"""The CPU time that traces of OpenTelemetry add to a request, at the usual share of 1 %.

An instance without traces and one with traces get the same load at the same time. So other work on the machine costs both the
same. Two equal instances differ by up to 3 %, because each has another layout of its memory. So a figure is the median of pairs
from several starts. A collector in this process takes the spans of the instances with traces.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from typing import Any

from bench.client import Client
from bench.cpu import used
from bench.load import Requests, send
from bench.log import ONE
from bench.report import Row
from bench.watch import NO_CAPS
from tests import instances
from tests.instances import Instance

SHARE, MOST = 0.01, 0.02
STARTS, PAIRS, SECONDS = 6, 4, 2
TOPIC = "traced"
LOADS = (
    ("append 1 record, 64 connections", 64, "", ONE),
    ("diff, limit 1, 32 connections", 32, "/diff", '{"from_seq":7,"limit":1}'),
)


def run(_: Instance) -> Iterator[Row]:
    found: dict[str, list[tuple[float, float]]] = {load[0]: [] for load in LOADS}
    with collector() as address:
        asked = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": str(SHARE)}
        for _start in range(STARTS):
            with (
                instances.start(**NO_CAPS) as plain,
                instances.start(**NO_CAPS, **asked, OTEL_EXPORTER_OTLP_ENDPOINT=address) as traced,
            ):
                for instance in (plain, traced):
                    Client(instance.port).call("PUT", f"topics/{TOPIC}", {})
                    micros(instance, 64, "", ONE)  # warm
                for work, *load in LOADS:
                    found[work] += pairs(plain, traced, *load)
    yield from (row(work, found[work]) for work in found)


def pairs(plain: Instance, traced: Instance, *load: Any) -> Iterator[tuple[float, float]]:
    """Yields the CPU time of a request without and with traces."""
    with ThreadPoolExecutor(2) as both:
        for _ in range(PAIRS):
            without, with_traces = both.map(lambda instance: micros(instance, *load), (plain, traced))
            yield without, with_traces


def micros(instance: Instance, connections: int, path: str, body: str) -> float:
    """Returns the CPU time (µs) of the web processes for a request of this load."""
    processes = instance.pids("topics_project.web")
    before = used(processes)
    load = send(Requests("POST", f"{instance.url}/v0/topics/{TOPIC}{path}", body), connections, SECONDS)
    return (used(processes) - before) / (load.rate * SECONDS)


def row(work: str, found: list[tuple[float, float]]) -> Row:
    without, with_traces = (median(side) for side in zip(*found, strict=True))
    ratio = median(after / before for before, after in found)
    return Row(
        f"{work}, traces of {SHARE:.0%}, {len(found)} pairs from {STARTS} starts",
        f"≤ {MOST:.0%} more CPU than without",
        f"CPU {with_traces:.1f} µs of web processes",
        f"{without:.1f} µs (without)",
        f"{ratio:.3f}",
        ratio <= 1 + MOST,
    )


class Taking(BaseHTTPRequestHandler):
    """Takes spans, and does nothing with them."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def collector() -> Iterator[str]:
    """Runs a collector. Yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
