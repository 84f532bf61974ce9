"""What a process counts, and what Prometheus is told (contract.md section 9).

Counting is a plain addition, cheap enough for the fast lane; once a second and before a scrape the sums go to
prometheus_client, whose files (PROMETHEUS_MULTIPROC_DIR) add up all web processes. Gauges are read from the
database at the scrape, by `collectors`: other apps append theirs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import connection
from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

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
MOST_CURSORS = 1000  # shown one by one: those that lag most

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


STORED = """
SELECT count(*), coalesce(sum(head.count), 0), coalesce(sum(head.bytes), 0)
  FROM topics_topic t JOIN topics_topichead head ON head.topic_id = t.id
 WHERE %(prefixes)s::text[] IS NULL OR t.name ^@ ANY (%(prefixes)s)
"""
LAGS = """
SELECT t.name, c.kind, c.name, head.head_seq - c.seq
  FROM topics_cursor c JOIN topics_topic t ON t.id = c.topic_id JOIN topics_topichead head ON head.topic_id = c.topic_id
 WHERE %(prefixes)s::text[] IS NULL OR t.name ^@ ANY (%(prefixes)s)
 ORDER BY head.head_seq - c.seq DESC, c.id LIMIT %(most)s
"""


def stored(key: Key) -> Iterator[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(STORED, {"prefixes": list(key.prefixes) or None})
        topics, records, bytes = cursor.fetchone()
    yield GaugeMetricFamily("topics_topics", "Topics", value=topics)
    yield GaugeMetricFamily("topics_records", "Records held", value=float(records))
    yield GaugeMetricFamily("topics_bytes", "Payload bytes held", value=float(bytes))


def cursor_lags(key: Key) -> Iterator[Metric]:
    lags = GaugeMetricFamily("topics_cursor_lag_records", "Head minus cursor", labels=("topic", "kind", "cursor"))
    with connection.cursor() as cursor:
        cursor.execute(LAGS, {"prefixes": list(key.prefixes) or None, "most": MOST_CURSORS})
        rows = cursor.fetchall()
    most: dict[tuple[str, str, str], int] = {}  # several cursors of a topic may have names that the key may not see
    for topic, kind, name, lag in rows:
        labels = (topic, kind, name if kind == "named" else key.shown(name))
        most[labels] = max(lag, most.get(labels, lag))
    for labels, lag in most.items():
        lags.add_metric(labels, lag)
    yield lags


Collector = Callable[[Key], Iterable[Metric]]
collectors: list[Collector] = [stored, cursor_lags]


class Gathered:
    """A registry's content for one scrape: the counters of all processes where the key may see all, then the gauges of
    what it may see."""

    def __init__(self, key: Key) -> None:
        self.key = key

    def collect(self) -> Iterator[Metric]:
        if self.key.sees_all:
            yield from self.counters()
        for collector in collectors:
            yield from collector(self.key)

    def counters(self) -> Iterator[Metric]:
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
