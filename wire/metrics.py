"""What a process counts, and what Prometheus is told (docs/wire.md).

Counting is a plain addition, cheap enough for every request; once a second and before a scrape the sums go to
prometheus_client, whose files (PROMETHEUS_MULTIPROC_DIR) add up all web processes. Gauges are read from the
database at the scrape, by `collectors`: other apps append theirs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from store.script import Script
from wire.keys import Key

disable_created_metrics()
REGISTRY = CollectorRegistry()  # of this process
COUNTERS = {
    name: Counter(name, text, labels, registry=REGISTRY)
    for name, text, labels in (
        ("topics_appends_total", "Appends that were acked", ()),
        ("topics_appended_records_total", "Records appended", ()),
        ("topics_diffs_total", "Reads by diff", ()),
        ("topics_read_records_total", "Records examined by diffs", ()),
        ("topics_http_requests_total", "Requests by route and status", ("method", "route", "status")),
        ("topics_throttled_total", "Requests refused by a resource cap", ("limit",)),
    )
}
APPENDS, APPENDED = ("topics_appends_total",), ("topics_appended_records_total",)
DIFFS, READ = ("topics_diffs_total",), ("topics_read_records_total",)
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))

_lock = threading.Lock()
_sums: dict[tuple[str | int, ...], int] = {}  # by name and labels


def count(name: str, *labels: str, by: int = 1) -> None:
    key = (name, *labels)
    with _lock:
        _sums[key] = _sums.get(key, 0) + by


def appended(records: int) -> None:
    with _lock:
        _sums[APPENDS] = _sums.get(APPENDS, 0) + 1
        _sums[APPENDED] = _sums.get(APPENDED, 0) + records


def read(records: int) -> None:
    with _lock:
        _sums[DIFFS] = _sums.get(DIFFS, 0) + 1
        _sums[READ] = _sums.get(READ, 0) + records


def request(method: str, route: str, status: int) -> None:
    # A client may call its method anything: that must not make a series each.
    key = ("topics_http_requests_total", method if method in METHODS else "other", route, status)
    with _lock:
        _sums[key] = _sums.get(key, 0) + 1


def throttled(limit: str) -> None:
    count("topics_throttled_total", limit)


def flush() -> None:
    """Hand the sums over to prometheus_client."""
    global _sums
    with _lock:
        sums, _sums = _sums, {}
    for (name, *labels), by in sums.items():
        counter = COUNTERS[str(name)]
        (counter.labels(*labels) if labels else counter).inc(by)


Collector = Callable[[Key], Script[list[Metric]]]
collectors: list[Collector] = []


class Gathered:
    """A registry's content for one scrape."""

    def __init__(self, metrics: list[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self.metrics)


def gather(key: Key) -> Script[Gathered]:
    """The counters of all processes where the key may see all, then the gauges of what it may see."""
    found = list(counters()) if key.sees_all else []
    for collector in collectors:
        found += yield from collector(key)
    return Gathered(found)


def counters() -> Iterator[Metric]:
    flush()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        yield from MultiProcessCollector(None).collect()
    else:
        yield from REGISTRY.collect()


def as_dict(gathered: Gathered) -> dict[str, Any]:
    """Each metric by name: its kind, its help and its samples."""
    return {
        metric.name: {
            "type": metric.type,
            "help": metric.documentation,
            "samples": [{"name": s.name, "labels": s.labels, "value": s.value} for s in metric.samples],
        }
        for metric in gathered.collect()
    }
