"""The metrics of consumer groups for Prometheus: two queries at each scrape."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily, Metric

from base.clock import now_ms
from store.script import Script, Statement
from wire.keys import Key

MOST_SHARES = 1000  # the shares with the largest lags

MEMBERS = """
SELECT t.name, g.name, count(m.id)
  FROM groups_group g JOIN topics_topic t ON t.id = g.topic_id LEFT JOIN groups_member m ON m.group_id = g.id
 WHERE %(prefixes)s::text[] IS NULL OR t.name ^@ ANY (%(prefixes)s)
 GROUP BY g.id, t.name, g.name
"""
# Shares are often at the same seq, and the search for the first record above it is done once for each seq.
SHARES = """
WITH shares AS MATERIALIZED (
    SELECT t.id, t.name AS topic, g.name AS group_name, s.share, greatest(s.seq, h.floor_seq) AS seq,
           greatest(h.head_seq - s.seq, 0) AS lag
      FROM groups_share s JOIN groups_group g ON g.id = s.group_id
      JOIN topics_topic t ON t.id = g.topic_id JOIN topic_heads h ON h.topic_id = t.id
     WHERE %(prefixes)s::text[] IS NULL OR t.name ^@ ANY (%(prefixes)s)
     ORDER BY lag DESC, g.id, s.share LIMIT %(most)s),
     firsts AS MATERIALIZED (
    SELECT id, seq, topic_next_ts(id, seq) AS next_ts FROM (SELECT DISTINCT id, seq FROM shares) places)
SELECT topic, group_name, share, lag, coalesce(greatest(%(now)s - next_ts, 0), 0)
  FROM shares JOIN firsts USING (id, seq)
 ORDER BY topic, group_name, share
"""


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the members of the groups of the topics that this key may see, and the lags of their shares."""
    prefixes = list(key.prefixes) or None
    members = GaugeMetricFamily("topics_group_members", "Members of a consumer group", labels=("topic", "group"))
    for topic, group, count in (yield Statement(MEMBERS, {"prefixes": prefixes})):
        members.add_metric((topic, group), count)
    labels = ("topic", "group", "share")
    lags = GaugeMetricFamily("topics_group_lag_records", "Head minus the cursor of a share", labels=labels)
    ages = GaugeMetricFamily("topics_group_lag_seconds", "Age of the oldest unread record of a share", labels=labels)
    rows = yield Statement(SHARES, {"prefixes": prefixes, "most": MOST_SHARES, "now": now_ms()})
    for topic, group, share, lag, age_ms in rows:
        lags.add_metric((topic, group, str(share)), lag)
        ages.add_metric((topic, group, str(share)), age_ms / 1000)
    return [members, lags, ages]
