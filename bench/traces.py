"""The CPU time that traces of OpenTelemetry add to a request, at the usual share of 1 %.

Two equal processes differ by up to 5 %, because each has another layout of its memory. So each web process serves by turns with
and without traces (bench/turns.py). A collector in this process takes the spans.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from statistics import median
from typing import Any

from bench.client import Client
from bench.load import Requests, send
from bench.log import ONE
from bench.report import Row
from bench.turns import Turn, turns
from bench.watch import NO_CAPS
from tests import instances
from tests.instances import ROOT, Instance

SHARE, MOST = 0.01, 0.02
STARTS, SECONDS = 3, 15
TOPIC = "traced"
TURNS = (sys.executable, "-m", "bench.turns", "run")
LOADS = (
    ("append 1 record, 64 connections", 64, "", ONE),
    ("diff, limit 1, 32 connections", 32, "/diff", '{"from_seq":7,"limit":1}'),
)


def run(_: Instance) -> Iterator[Row]:
    found: dict[str, list[list[Turn]]] = {work: [] for work, *_ in LOADS}
    with collector() as address:
        asked = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": str(SHARE)}
        asked["OTEL_EXPORTER_OTLP_ENDPOINT"] = address
        for _start in range(STARTS):
            with instances.start(command=TURNS, PYTHONPATH=str(ROOT), **NO_CAPS, **asked) as instance:
                Client(instance.port).call("PUT", f"topics/{TOPIC}", {})
                loaded(instance, 64, "", ONE)  # warm
                for work, connections, path, body in LOADS:
                    found[work] += loaded(instance, connections, path, body)
    yield from (row(work, found[work]) for work in found)


def loaded(instance: Instance, connections: int, path: str, body: str) -> list[list[Turn]]:
    """Sends a load. Returns the turns of each process."""
    send(Requests("POST", f"{instance.url}/v0/topics/{TOPIC}{path}", body), connections, SECONDS)
    return turns(instance.data)


def row(work: str, processes: list[list[Turn]]) -> Row:
    # Turns that follow each other have the same load, and the same neighbours on the machine.
    pairs = [pair for found in processes for pair in pairwise(found)]
    added = [b.micros - a.micros if b.traced else a.micros - b.micros for a, b in pairs]
    without = median(turn.micros for found in processes for turn in found if not turn.traced)
    traced = sum(turn.requests for found in processes for turn in found if turn.traced)
    exporter = sum(turn.exporter_micros for found in processes for turn in found) / traced
    ratio = 1 + (median(added) + exporter) / without
    return Row(
        f"{work}, traces of {SHARE:.0%}, {len(pairs)} pairs of turns from {STARTS} starts",
        f"≤ {MOST:.0%} more CPU than without",
        f"{median(added):+.2f} µs of the event loop, {exporter:+.2f} µs of the exporter",
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
