"""Metrics of routers for Prometheus. Each scrape queries all routers at once, so that a stuck router cannot look idle."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from base.clock import now_ms
from routers.lag import lags_of_all
from store.script import Script
from topics.read.unread import names_of
from wire.access.keys import Key

LABELS = ("router", "source", "dest")


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the metrics of the routers whose name, source and dest the key may see."""
    lag_records = GaugeMetricFamily("topics_router_lag_records", "Lag in records", labels=LABELS)
    lag_seconds = GaugeMetricFamily("topics_router_lag_seconds", "Age of the oldest record that waits", labels=LABELS)
    forwarded = CounterMetricFamily("topics_router_forwarded_total", "Forwarded records", labels=LABELS)
    errors = CounterMetricFamily("topics_router_errors_total", "Failed steps", labels=LABELS)
    stalled = GaugeMetricFamily(
        "topics_router_stalled", "1: the router is behind, not paused, and has not advanced for 10 s", labels=LABELS
    )
    routers = yield from lags_of_all(now_ms())
    names = yield from names_of({id for each in routers for id in (each.source_id, each.dest_id)})
    for each in sorted(routers, key=lambda router: router.name):
        labels = (each.name, names.get(each.source_id, ""), names.get(each.dest_id, ""))
        if not (all(labels) and all(key.allows(name) for name in labels)):  # or one was deleted meanwhile
            continue
        lag_records.add_metric(labels, each.lag.lag)
        lag_seconds.add_metric(labels, (each.lag.oldest_unread_ms or 0) / 1000)
        forwarded.add_metric(labels, each.forwarded_total)
        errors.add_metric(labels, each.errors_total)
        stalled.add_metric(labels, each.lag.stalled)
    return [lag_records, lag_seconds, forwarded, errors, stalled]
