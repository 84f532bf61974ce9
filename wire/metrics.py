"""Counters of a process, and metrics for Prometheus (docs/wire.md).

Counting is a plain addition, cheap enough for every request. Once a second and before a scrape, the sums go to
prometheus_client. Its files (PROMETHEUS_MULTIPROC_DIR) add up all web processes. At a scrape, `collectors` read gauges from the
database.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import prometheus_client.values
from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from base.slot import Slot
from store.script import Script
from wire.access.keys import Key

COUNTED = (
    ("topics_appends_total", "Acknowledged appends", ()),
    ("topics_appended_records_total", "Records of these appends", ()),
    ("topics_diffs_total", "Diffs", ()),
    ("topics_read_records_total", "Records that the diffs looked at", ()),
    ("topics_http_requests_total", "Requests", ("method", "route", "status")),
    ("topics_throttled_total", "Refusals by a cap. It appears with the first refusal", ("limit",)),
    # These two form a histogram (see histogram()). prometheus_client's own would take one call for each request.
    ("topics_request_bucket_total", "Requests by duration", ("method", "route", "le")),
    ("topics_request_microseconds_total", "Duration of requests", ("method", "route")),
)
APPENDS, APPENDED = ("topics_appends_total",), ("topics_appended_records_total",)
DIFFS, READ = ("topics_diffs_total",), ("topics_read_records_total",)
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
LE = (*(str(bound) for bound in BOUNDS), "+Inf")
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "WS"))  # WS: a command of a WebSocket

REGISTRY = CollectorRegistry()  # metrics of this process

# Each flush calls this with the counts since the last flush.
on_flush: Slot[Callable[[dict[tuple[str | int, ...], int]], object]] = Slot()


class Counts:
    """The counts of this process since the last flush. Any thread may count."""

    def __init__(self) -> None:
        self.writer: Callable[[], int] = os.getpid  # names the file of this process
        self.lock = threading.Lock()
        self.sums: dict[tuple[str | int, ...], int] = {}  # by name and labels
        # By method, route and status: the number of requests in each bucket, and the microseconds of all requests.
        self.requests: dict[tuple[str, str, int], list[int]] = {}

    def use_slot(self, slot: int) -> None:
        """Names the file of this web process by its slot (base/prefork.py), before the first flush.

        A process that replaces it continues the file. So there are never more files than web processes.
        """
        self.writer = lambda: slot

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        key = (name, *labels)
        with self.lock:
            self.sums[key] = self.sums.get(key, 0) + by

    def appended(self, records: int) -> None:
        with self.lock:
            self.sums[APPENDS] = self.sums.get(APPENDS, 0) + 1
            self.sums[APPENDED] = self.sums.get(APPENDED, 0) + records

    def read(self, records: int) -> None:
        with self.lock:
            self.sums[DIFFS] = self.sums.get(DIFFS, 0) + 1
            self.sums[READ] = self.sums.get(READ, 0) + records

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request to this route that was answered after `seconds`."""
        # A client can invent methods. They must not make new series.
        key = (method if method in METHODS else "other", route, status)
        with self.lock:
            counted = self.requests.get(key)
            if counted is None:
                counted = self.requests[key] = [0] * (len(LE) + 1)
            counted[bisect_left(BOUNDS, seconds)] += 1
            counted[-1] += int(seconds * 1_000_000)

    def throttled(self, limit: str) -> None:
        self.count("topics_throttled_total", limit)

    def flush(self) -> None:
        """Move the sums to prometheus_client."""
        with self.lock:
            sums, self.sums = self.sums, {}
            requests, self.requests = self.requests, {}
        for (method, route, status), (*buckets, microseconds) in requests.items():
            sums["topics_http_requests_total", method, route, status] = sum(buckets)
            for le, by in zip(LE, buckets, strict=True):
                add(sums, ("topics_request_bucket_total", method, route, le), by)
            add(sums, ("topics_request_microseconds_total", method, route), microseconds)
        on_flush.value(sums)
        counted = prometheus()
        for (name, *labels), by in sums.items():
            counter = counted[str(name)]
            (counter.labels(*labels) if labels else counter).inc(by)


process = Counts()
count, appended, read, request = process.count, process.appended, process.read, process.request
throttled, flush = process.throttled, process.flush


def add(sums: dict[tuple[str | int, ...], int], key: tuple[str, ...], by: int) -> None:
    if by:
        sums[key] = sums.get(key, 0) + by


Collector = Callable[[Key], Script[list[Metric]]]
collectors: Slot[Sequence[Collector]] = Slot()


class GatheredMetrics:
    """A registry's content for one scrape."""

    def __init__(self, metrics: list[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self.metrics)


def gather(key: Key) -> Script[GatheredMetrics]:
    """Returns the counters of all processes (if the key may see all), and the gauges that the key may see."""
    found = list(counters()) if key.sees_all else []
    for collector in collectors.value:
        found += yield from collector(key)
    return GatheredMetrics(found)


@cache
def prometheus() -> dict[str, Counter]:
    """Returns the counters of this process by name.

    The counters are made at the first use, not at import. Before the first use this process may fork, and each fork needs its
    own files.
    """
    values = prometheus_client.values
    values.ValueClass = values.MultiProcessValue(process.writer) if is_shared() else values.MutexValue
    disable_created_metrics()
    return {name: Counter(name, text, labels, registry=REGISTRY) for name, text, labels in COUNTED}


def is_shared() -> bool:
    """Returns whether this process adds up its counts with others."""
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ


def counters() -> Iterator[Metric]:
    flush()
    found = {metric.name: metric for metric in (MultiProcessCollector(None) if is_shared() else REGISTRY).collect()}
    buckets, sums = (found.pop(name, None) for name in ("topics_request_bucket", "topics_request_microseconds"))
    yield from found.values()
    if buckets is not None and sums is not None:
        yield histogram(buckets, sums)


def histogram(buckets: Metric, sums: Metric) -> Metric:
    """Returns the histogram of request durations by route, from the counters of its buckets and of the total time."""
    family = HistogramMetricFamily(
        "topics_http_request_seconds",
        "Histogram of durations, without streams. A long poll counts its wait",
        labels=("method", "route"),
    )
    counted: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for labels, value in values(buckets):
        counted[labels["method"], labels["route"]][labels["le"]] = value
    for labels, microseconds in values(sums):
        route = (labels["method"], labels["route"])
        most, upto = 0.0, []
        for le in LE:
            most += counted[route].get(le, 0.0)
            upto.append((le, most))
        family.add_metric(route, upto, microseconds / 1_000_000)
    return family


def values(counter: Metric) -> Iterable[tuple[dict[str, str], float]]:
    return ((sample.labels, sample.value) for sample in counter.samples)


def as_dict(gathered: GatheredMetrics) -> dict[str, Any]:
    """Returns the type, the help and the samples of each metric, by name."""
    return {
        metric.name: {
            "type": metric.type,
            "help": metric.documentation,
            "samples": [{"name": s.name, "labels": s.labels, "value": s.value} for s in metric.samples],
        }
        for metric in gathered.collect()
    }
