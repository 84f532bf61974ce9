"""Metrics of routers for Prometheus. Each scrape queries all routers at once, so that a stuck router cannot look idle."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from base.clock import now_ms
from routers.lag import FROM, LAG, STALLED_MS, lag_of
from store.script import Script, Statement
from wire.keys import Key

ROUTERS = f"""
SELECT r.name, source.name, dest.name, c.forwarded_total, r.errors_total, {LAG}
{FROM}
  JOIN topics_topic source ON source.id = r.source_id JOIN topics_topic dest ON dest.id = r.dest_id
 WHERE %(prefixes)s::text[] IS NULL
    OR r.name ^@ ANY (%(prefixes)s) AND source.name ^@ ANY (%(prefixes)s) AND dest.name ^@ ANY (%(prefixes)s)
 ORDER BY r.name
"""
LABELS = ("router", "source", "dest")


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the metrics of the routers whose name, source and dest the key may see."""
    lag_records = GaugeMetricFamily("topics_router_lag_records", "Source head minus cursor", labels=LABELS)
    lag_seconds = GaugeMetricFamily(
        "topics_router_lag_seconds", "Age of the oldest record that is not forwarded", labels=LABELS
    )
    forwarded = CounterMetricFamily("topics_router_forwarded_total", "Records forwarded", labels=LABELS)
    errors = CounterMetricFamily("topics_router_errors_total", "Steps that ended in an error", labels=LABELS)
    stalled = GaugeMetricFamily(
        "topics_router_stalled", "1: behind, not paused, and its cursor does not advance", labels=LABELS
    )
    wanted = {"prefixes": list(key.prefixes) or None, "now": now_ms(), "stalled_ms": STALLED_MS}
    rows = yield Statement(ROUTERS, wanted)
    for *labels, forwarded_total, errors_total, records, oldest_unread_ms, still in rows:
        lag = lag_of(records, oldest_unread_ms, still)
        lag_records.add_metric(labels, lag.lag)
        lag_seconds.add_metric(labels, (lag.oldest_unread_ms or 0) / 1000)
        forwarded.add_metric(labels, forwarded_total)
        errors.add_metric(labels, errors_total)
        stalled.add_metric(labels, lag.stalled)
    return [lag_records, lag_seconds, forwarded, errors, stalled]
