"""The log's metrics for Prometheus: a query for all topics and a query for all cursors at each scrape."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily, Metric

from store.script import Script, Statement
from topics.read.totals import TOTALS
from wire.access.keys import Key

MOST_CURSORS = 1000  # the cursors with the largest lags

# The topics of a key with prefixes, by a range of the unique index for each prefix. No character of a name sorts behind "~".
SEEN = """
SELECT DISTINCT t.id FROM unnest(%(prefixes)s::text[]) prefix JOIN topics_topic t ON t.name >= prefix AND t.name < prefix || '~'
"""
# A key without prefixes gets TOTALS.
STORED = f"""
SELECT count(*), coalesce(sum(count), 0), coalesce(sum(bytes), 0) FROM topics_topichead WHERE topic_id = ANY (ARRAY({SEEN}))
"""
# Reads the heads of the topics with cursors in the order of the index, so neighbours share a page, and then the names of the
# topics that it returns. For a join, PostgreSQL can look up row after row, or read the rows of all topics.
LAGS = """
WITH cursors AS MATERIALIZED (SELECT id, topic_id, kind, name, seq FROM topics_cursor {of}),
heads AS MATERIALIZED (
    SELECT topic_id, head_seq FROM topics_topichead WHERE topic_id = ANY (ARRAY(SELECT DISTINCT topic_id FROM cursors))),
lags AS MATERIALIZED (
    SELECT c.id, c.topic_id, c.kind, c.name, heads.head_seq - c.seq AS lag
      FROM cursors c JOIN heads USING (topic_id) ORDER BY lag DESC, c.id LIMIT %(most)s),
names AS MATERIALIZED (
    SELECT id, name FROM topics_topic WHERE id = ANY (ARRAY(SELECT DISTINCT topic_id FROM lags)))
SELECT names.name, lags.kind, lags.name, lags.lag FROM lags JOIN names ON names.id = lags.topic_id
 ORDER BY lags.lag DESC, lags.id
"""
ALL_LAGS, SEEN_LAGS = LAGS.format(of=""), LAGS.format(of=f"WHERE topic_id = ANY (ARRAY({SEEN}))")


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the metrics of the topics that this key may see, and the lags of their cursors."""
    return [*(yield from stored(key)), (yield from cursor_lags(key))]


def stored(key: Key) -> Script[list[Metric]]:
    sums = Statement(STORED, {"prefixes": list(key.prefixes)}) if key.prefixes else Statement(TOTALS)
    ((topics, records, bytes),) = yield sums
    return [
        GaugeMetricFamily("topics_topics", "Topics, exact at the scrape", value=topics),
        GaugeMetricFamily("topics_records", "Live records, exact at the scrape", value=float(records)),
        GaugeMetricFamily(
            "topics_bytes", "Bytes of `data` and `meta` of live records, exact at the scrape", value=float(bytes)
        ),
    ]


def cursor_lags(key: Key) -> Script[Metric]:
    lags = GaugeMetricFamily(
        "topics_cursor_lag_records", "Lag of the 1,000 cursors that lag most", labels=("topic", "kind", "cursor")
    )
    statement = SEEN_LAGS if key.prefixes else ALL_LAGS
    rows = yield Statement(statement, {"prefixes": list(key.prefixes), "most": MOST_CURSORS})
    most: dict[tuple[str, str, str], int] = {}  # hidden names of a topic all have the same label
    for topic, kind, name, lag in rows:
        labels = (topic, kind, name if kind == "named" else key.shown(name))
        most[labels] = max(lag, most.get(labels, lag))
    for labels, lag in most.items():
        lags.add_metric(labels, lag)
    return lags
