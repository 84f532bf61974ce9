"""Fills large topics by SQL, with the result of a year of appends."""

from __future__ import annotations

from typing import Any

import psycopg

FILL = """
WITH wanted AS (SELECT %(records)s::bigint AS records, %(size)s::bigint AS size),
head AS (
    UPDATE topics_topichead
       SET head_seq = head_seq + records, count = count + records, bytes = bytes + records * size,
           total = total + records * size, last_ts = greatest(last_ts, %(ts)s)
      FROM wanted
     WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %(topic)s)
    RETURNING topic_id, head_seq - records AS base, total - records * size AS base_total, last_ts, records, size)
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, node, tag, data)
SELECT topic_id, base + n, last_ts, base_total + n * size, size, 'n1', 'order:' || n %% 1000, %(data)s::json
  FROM head, generate_series(1, records) n
"""
DATA = (
    '{"id":12345,"kind":"order.created","total":19.99,"customer":"c-1029","items":["a","b","c"],"note":"hello world"}'
)


def fill(connection: psycopg.Connection[Any], topic: str, records: int, ts: int) -> None:
    """Append `records` records to an existing topic."""
    connection.execute(FILL, {"topic": topic, "records": records, "size": len(DATA), "ts": ts, "data": DATA})
