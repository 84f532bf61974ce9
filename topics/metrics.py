"""The log's metrics for Prometheus: a query for all topics and a query for all cursors at each scrape."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily, Metric

from store.script import Script, Statement
from wire.keys import Key

MOST_CURSORS = 1000  # the cursors with the largest lags

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


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the metrics of the topics that this key may see, and the lags of their cursors."""
    return [*(yield from stored(key)), (yield from cursor_lags(key))]


def stored(key: Key) -> Script[list[Metric]]:
    ((topics, records, bytes),) = yield Statement(STORED, {"prefixes": list(key.prefixes) or None})
    return [
        GaugeMetricFamily("topics_topics", "Topics", value=topics),
        GaugeMetricFamily("topics_records", "Records held", value=float(records)),
        GaugeMetricFamily("topics_bytes", "Payload bytes held", value=float(bytes)),
    ]


def cursor_lags(key: Key) -> Script[Metric]:
    lags = GaugeMetricFamily("topics_cursor_lag_records", "Head minus cursor", labels=("topic", "kind", "cursor"))
    rows = yield Statement(LAGS, {"prefixes": list(key.prefixes) or None, "most": MOST_CURSORS})
    most: dict[tuple[str, str, str], int] = {}  # hidden names of a topic all have the same label
    for topic, kind, name, lag in rows:
        labels = (topic, kind, name if kind == "named" else key.shown(name))
        most[labels] = max(lag, most.get(labels, lag))
    for labels, lag in most.items():
        lags.add_metric(labels, lag)
    return lags
