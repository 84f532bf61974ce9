"""The metrics of consumer groups for Prometheus: some queries of all groups at each scrape."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily, Metric

from base.clock import now_ms
from store.script import Script, Statement
from topics.read.unread import HEAD, StoredHead, first_unread, names_of
from wire.access.keys import Key

MOST_SHARES = 1000  # the shares with the largest lags

GROUPS = """
SELECT id, topic_id, name FROM groups_group
 WHERE %(prefixes)s::text[] IS NULL
    OR EXISTS (SELECT FROM topics_topic t WHERE t.id = topic_id AND t.name ^@ ANY (%(prefixes)s))
"""
MEMBERS = "SELECT group_id, count(*) FROM groups_alive GROUP BY group_id"
# Reads each table once, in the order of its index, so neighbours share a page. If the statistics are old, PostgreSQL may compare
# each row of one list with each row of another. So a group has one row in `grouped`, and not one for each share.
SHARES = f"""
WITH shares AS MATERIALIZED (SELECT group_id, share, seq FROM groups_share),
     grouped AS MATERIALIZED (SELECT group_id, array_agg(share) AS share, array_agg(seq) AS seq FROM shares GROUP BY group_id),
     heads AS MATERIALIZED (SELECT {HEAD} FROM topic_heads WHERE topic_id = ANY (%(topics)s::bigint[]))
SELECT g.id, s.share, greatest(s.seq, h.floor_seq), h.*
  FROM unnest(%(ids)s::bigint[], %(topics)s::bigint[]) g (id, topic_id)
  JOIN grouped a ON a.group_id = g.id JOIN heads h USING (topic_id) CROSS JOIN LATERAL unnest(a.share, a.seq) s (share, seq)
 ORDER BY greatest(h.head_seq - greatest(s.seq, h.floor_seq), 0) DESC, g.id, s.share LIMIT %(most)s
"""


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the members of the groups of the topics that this key may see, and the lags of their shares."""
    groups = yield Statement(GROUPS, {"prefixes": list(key.prefixes) or None})
    counts = dict((yield Statement(MEMBERS)))
    called = {id: name for id, _, name in groups}
    wanted = {"ids": list(called), "topics": [topic_id for _, topic_id, _ in groups], "most": MOST_SHARES}
    shares = [
        (called[id], share, after, StoredHead(*head)) for id, share, after, *head in (yield Statement(SHARES, wanted))
    ]
    names = yield from names_of({topic_id for _, topic_id, _ in groups} | {head.id for *_, head in shares})
    unread = yield from first_unread([(head, after) for *_, after, head in shares])
    members = GaugeMetricFamily("topics_group_members", "Members of a consumer group", labels=("topic", "group"))
    for id, topic_id, group in groups:
        if topic_id in names:  # otherwise the topic was deleted meanwhile
            members.add_metric((names[topic_id], group), counts.get(id, 0))
    labels = ("topic", "group", "share")
    lags = GaugeMetricFamily(
        "topics_group_lag_records",
        "Seqs from the first unread record of a share to the head, of the 1,000 shares that lag most",
        labels=labels,
    )
    ages = GaugeMetricFamily("topics_group_lag_seconds", "Age of the oldest unread record of a share", labels=labels)
    now = now_ms()
    for group, share, after, head in shares:
        if head.id in names:
            labelled, first = (names[head.id], group, str(share)), unread.get((head.id, after))
            lags.add_metric(labelled, 0 if first is None else max(head.head_seq - first.seq + 1, 0))
            ages.add_metric(labelled, 0 if first is None else max(now - first.ts, 0) / 1000)
    return [members, lags, ages]
