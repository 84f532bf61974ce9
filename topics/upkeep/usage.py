"""Reports stored rows, shown records, and the spans that keep rows from being reclaimed (upkeep/reclaim.py)."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection

# COUNTS reads stored rows as the planner estimates them, and their disk space. COUNTS also reads the shown records, and the
# rows that reclaim removed or had to leave. The number of unexamined seqs below the floors is an upper bound, because some
# seqs have no row.
COUNTS = """
SELECT *
  FROM (SELECT sum(greatest(reltuples, 0))::bigint, sum(pg_total_relation_size(oid))::bigint
          FROM pg_class WHERE oid IN ('topics_record_logged'::regclass, 'topics_record_volatile'::regclass)) stored,
       (SELECT greatest(reltuples, 0)::bigint, pg_total_relation_size(oid)
          FROM pg_class WHERE oid = 'topics_span'::regclass) spans,
       (SELECT coalesce(sum(count), 0)::bigint, coalesce(sum(bytes), 0)::bigint,
               coalesce(sum(greatest(floor_seq + 1 - coalesce(next_seq, 1), 0)), 0)::bigint
          FROM topics_topichead LEFT JOIN topics_reclaim USING (topic_id)) shown,
       (SELECT coalesce(sum(held_records), 0)::bigint, coalesce(sum(reclaimed_records), 0)::bigint
          FROM topics_reclaim) passes
"""
# PINNED finds records that their home no longer shows, and the topics that still show them. PINNED reads every span.
PINNED = """
SELECT coalesce(t.name, d.name, home_id::text), d.id IS NOT NULL, by.name, sum(records)::bigint AS records
  FROM (SELECT s.home_id, s.topic_id,
               least(s.home_last_seq, coalesce(home.floor_seq, s.home_last_seq))
               - (s.home_first_seq + greatest(dest.floor_seq + 1 - s.first_seq, 0)) + 1 AS records
          FROM topics_span s
          JOIN topics_topichead dest ON dest.topic_id = s.topic_id
          LEFT JOIN topics_topichead home ON home.topic_id = s.home_id
         WHERE s.shown AND s.last_seq > dest.floor_seq) pinned
  JOIN topics_topic by ON by.id = pinned.topic_id
  LEFT JOIN topics_topic t ON t.id = home_id
  LEFT JOIN topics_deletedtopic d ON d.id = home_id
 WHERE records > 0
 GROUP BY 1, 2, 3
 ORDER BY records DESC
 LIMIT %s
"""
# The bytes of the topic's rows, by the running total: two index probes. Deleted rows in between count, too.
STORED = """
SELECT head.total - (first.total - first.size)
  FROM topics_topichead head CROSS JOIN LATERAL (
      SELECT total, size FROM topics_record WHERE topic_id = %(id)s ORDER BY seq LIMIT 1) first
 WHERE head.topic_id = %(id)s
"""
# The records below the floor that other topics show, by the index of spans by home.
PINNED_BELOW = """
SELECT t.name, sum(least(home_last_seq, head.floor_seq) - home_first_seq + 1)::bigint
  FROM topics_topichead head
 CROSS JOIN LATERAL (
     SELECT topic_id, home_first_seq, home_last_seq FROM topics_span
      WHERE home_id = %(id)s AND shown AND home_first_seq <= head.floor_seq LIMIT %(most)s) piece
  JOIN topics_topic t ON t.id = piece.topic_id
 WHERE head.topic_id = %(id)s
 GROUP BY t.name ORDER BY 2 DESC LIMIT 10
"""


class Pinned(NamedTuple):
    """Records that their home no longer shows, and a topic that still shows them."""

    home: str
    home_deleted: bool
    shown_by: str
    records: int


class Usage(NamedTuple):
    """Rows and bytes: stored (estimated), shown, waiting for reclaim, reclaimed, and held back, with the topics that hold
    records."""

    stored_records: int
    stored_bytes: int
    spans: int
    spans_bytes: int
    shown_records: int
    shown_bytes: int
    waiting_records: int
    held_records: int
    reclaimed_records: int
    pinned: list[Pinned]


def report(most: int = 100) -> Usage:
    """Reports on the whole store, with a few queries over all heads and spans. `most`: number of pins, the largest first."""
    with connection.cursor() as cursor:
        cursor.execute(COUNTS)
        (counts,) = cursor.fetchall()
        cursor.execute(PINNED, [most])
        return Usage._make((*counts, [Pinned(*row) for row in cursor.fetchall()]))
