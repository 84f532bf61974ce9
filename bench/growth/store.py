"""Fills the store in steps, by SQL: each step brings it to a size, with the result of as many calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

import psycopg

from base.clock import now_ms

LARGE_SHARE = 0.4  # of the records, in one topic. The others have the same number of records each
HOLES = 1000  # deleted records of the large topic, at most
DATA = {90: '{"id":12345,"kind":"order.created","total":19.99,"customer":"c-1029","items":["a","b","c"]}'}
DATA[450] = json.dumps({"id": 12345, "note": "x" * 420}, separators=(",", ":"))


@dataclass(frozen=True)
class Size:
    """How many there are of each. `jobs`: in the largest queue. `records` are those of all topics but queues.

    A tenth of the things that a page lists fills its list: what a page reads for a longer list is no growth.
    """

    records: int = 25_000_000
    topics: int = 50_000
    routers: int = 1_000
    cursors: int = 5_000
    queues: int = 1_000
    jobs: int = 500_000
    groups: int = 1_000
    sessions: int = 2_000

    def part(self, share: float) -> Size:
        """Returns this share of everything."""
        return replace(self, **{each.name: max(2, int(getattr(self, each.name) * share)) for each in fields(self)})


SMALL = Size(records=1_000_000, topics=5_000, jobs=20_000)
NOTHING = Size(0, 0, 0, 0, 0, 0, 0, 0)
NEW = """
WITH made AS (
    INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create,
                              idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable,
                              created_ts)
    SELECT %(prefix)s || n, %(type)s, 0, 0, 0, 'old', 'disk', true, true, 120000, true, 30000, 0, 0, false, %(now)s
      FROM generate_series(%(first)s::int, %(last)s::int) n
    RETURNING id)
INSERT INTO topics_topichead (topic_id, head_seq, floor_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq, source_lost_seq,
                              holes_seq, count, bytes, total, last_ts, last_read_ts, version)
SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM made;
"""
# As many new records in the topic of this name, or in each whose name is like this and that has room for them.
APPENDED = """
WITH wanted AS (SELECT %(each)s::bigint AS records, %(size)s::bigint AS size),
head AS (
    UPDATE topics_topichead
       SET head_seq = head_seq + records, count = count + records, bytes = bytes + records * size,
           total = total + records * size, last_ts = greatest(last_ts, %(now)s), reserved_seq = head_seq + records,
           unsettled = true
      FROM wanted
     WHERE topic_id IN (SELECT id FROM topics_topic WHERE name = %(name)s OR %(name)s = '' AND name ~ %(like)s)
       AND head_seq + records <= %(most)s
    RETURNING topic_id, head_seq - records AS base, total - records * size AS base_total, last_ts, records, size)
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, node, tag, data)
SELECT topic_id, base + n, last_ts, base_total + n * size, size, 'n' || n %% 7,
       CASE WHEN (base + n) %% 5000 = 0 THEN 'rare:' || base + n ELSE 'order:' || n %% 1000 END, %(data)s::json
  FROM head, generate_series(1, records) n
"""
# The first quarter of the jobs is done, and the second is in flight.
JOBS = """
UPDATE topics_record SET deleted = true
 WHERE topic_id = %(id)s AND seq <= %(done)s AND seq > coalesce((SELECT floor_seq FROM queues_queue WHERE topic_id = %(id)s), 0);
UPDATE topics_topichead SET holes_seq = %(done)s, count = head_seq - %(done)s WHERE topic_id = %(id)s;
DELETE FROM queues_queue WHERE topic_id = %(id)s;
DELETE FROM queues_lease WHERE topic_id = %(id)s;
INSERT INTO queues_queue VALUES (%(id)s, false, 2 * %(done)s, %(done)s, %(done)s, 0, %(now)s, %(now)s, 0);
INSERT INTO queues_lease (topic_id, seq, durable, node, id, deadline, deliveries)
SELECT %(id)s, n, false, 'w', gen_random_uuid(), %(now)s + 3600000 + n, 1 FROM generate_series(%(done)s + 1, 2 * %(done)s) n
"""
MARK_HOLES = """
WITH hole AS (
    UPDATE topics_record_logged SET deleted = true
     WHERE topic_id = %(id)s AND NOT deleted AND seq = ANY (ARRAY(SELECT n * %(apart)s FROM generate_series(1, %(holes)s) n))
    RETURNING seq, size),
sums AS (SELECT count(*) AS holes, sum(size) AS bytes, max(seq) AS last FROM hole)
UPDATE topics_topichead head SET count = count - holes, bytes = head.bytes - sums.bytes, holes_seq = greatest(holes_seq, last)
  FROM sums WHERE topic_id = %(id)s AND holes > 0
"""
CURSORS = """
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT t.id, 'named', 'c' || n, 1, 0, %(now)s
  FROM generate_series(%(first)s::int, %(last)s::int) n
  JOIN topics_topic t ON t.name = CASE WHEN n %% 5 = 0 THEN 'large' ELSE 't' || 1 + n %% %(topics)s END
"""
# Each leads from a small topic to a topic of its own. The records of the source were forwarded in one span.
ROUTERS = """
WITH pair AS (
    SELECT n, source.id AS source, dest.id AS dest, head.head_seq, head.bytes
      FROM generate_series(%(first)s::int, %(last)s::int) n
      JOIN topics_topic source ON source.name = 't' || n JOIN topics_topichead head ON head.topic_id = source.id
      JOIN topics_topic dest ON dest.name = 'd' || n),
cursor AS (
    INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
    SELECT source, 'router', 'r' || n, head_seq, head_seq, %(now)s FROM pair RETURNING id, name),
router AS (
    INSERT INTO routers_router (name, source_id, dest_id, cursor_id, preserve_node, preserve_tag, allow_cycle, allow_fan_in,
                                cyclic, guarantee, state, errors_total, retry_ts, retry_ms, created_ts)
    SELECT name, source, dest, id, true, true, false, false, false, 'at_least_once', 'running', 0, 0, 0, %(now)s
      FROM pair JOIN cursor ON name = 'r' || n),
span AS (
    INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                             keep_tag, path)
    SELECT dest, 1, head_seq, source, 1, head_seq, %(now)s, true, true, true, ARRAY['r' || n] FROM pair),
left_to AS (
    UPDATE topics_topichead dest SET head_seq = pair.head_seq, holes_seq = pair.head_seq, count = pair.head_seq,
           bytes = pair.bytes, total = pair.bytes, last_ts = %(now)s, derived = true, unsettled = true
      FROM pair WHERE topic_id = dest)
UPDATE topics_topichead SET routed = true FROM pair WHERE topic_id = source
"""
GROUPS = """
WITH made AS (
    INSERT INTO groups_group (topic_id, name, partition_by, partitions, start, created_ts)
    SELECT t.id, 'g' || n, 'tag', 16, 'tail', %(now)s
      FROM generate_series(%(first)s::int, %(last)s::int) n JOIN topics_topic t ON t.name = 't' || n
    RETURNING id)
INSERT INTO groups_share (group_id, share, seq, updated_ts)
SELECT id, share, 1, %(now)s FROM made, generate_series(0, 15) share ORDER BY id, share
"""
SESSIONS = """
INSERT INTO topics_watchsession (wid, key_id, options, spots, stream, open, seen_ts, created_ts)
SELECT 'w' || n, 'address:10.0.' || n / 250 || '.' || n %% 250, '{}', '{}', 1, false, %(now)s + 3600000, %(now)s
  FROM generate_series(%(first)s::int, %(last)s::int) n
"""
# One for each topic: what an operator, a client and a query of Spark of two days leave, and a deleted topic that others show.
AUDIT = """
INSERT INTO topics_auditentry (ts, actor, actor_name, origin, action, kind, name)
SELECT %(now)s - 1000 * (n %% 100000), 'key', 'key', '10.0.0.1', 'create', 'topic', 't' || n
  FROM generate_series(%(first)s::int, %(last)s::int) n;
INSERT INTO topics_idempotencykey (topic_id, key, first_seq, last_seq, ts)
SELECT id, 'key', 1, 1, %(now)s + 3600000 FROM topics_topic
 WHERE name = ANY (ARRAY(SELECT 't' || n FROM generate_series(%(first)s::int, %(last)s::int) n));
INSERT INTO topics_lasthead (name, head_seq)
SELECT 'gone' || n, n FROM generate_series(%(first)s::int, %(last)s::int) n;
INSERT INTO topics_deletedtopic (id, name, deleted_ts, due_ts)
SELECT -n, 'gone' || n, %(now)s, %(now)s + 3600000 FROM generate_series(%(first)s::int, %(last)s::int) n;
INSERT INTO topics_reclaim (topic_id, next_seq, reclaimed_records, held_records, updated_ts)
SELECT -n, (1::bigint << 62) + 1, 0, 1, %(now)s FROM generate_series(%(first)s::int, %(last)s::int) n;
INSERT INTO pipeline_written (topic_id, writer, partition, batch, records, ts)
SELECT n, 'query', 0, 1, 1, %(now)s FROM generate_series(%(first)s::int, %(last)s::int) n
"""


class Store:
    """The store, and how far it is filled."""

    def __init__(self, database: psycopg.Connection[Any], bytes: int = 90) -> None:
        self.database, self.data, self.size = database, DATA[bytes], NOTHING

    def fill(self, size: Size) -> None:
        """Adds the missing objects, up to this size."""
        was, self.size = self.size, size
        if was == NOTHING:
            for name, type in (("large", "log"), ("jobs", "queue"), ("dead", "log")):
                self.run(NEW, prefix=name, first=0, last=0, type=type)
            self.database.execute("UPDATE topics_topic SET name = left(name, -1) WHERE name ~ '^(large|jobs|dead)0$'")
        self.add("topics", NEW, was, prefix="t", type="log")
        self.add("routers", NEW, was, prefix="d", type="log")
        self.add("queues", NEW, was, prefix="q", type="queue")
        self.append("large", int(size.records * LARGE_SHARE) - int(was.records * LARGE_SHARE))
        each = int(size.records * (1 - LARGE_SHARE) / size.topics)
        self.append("", each, like="^t[0-9]+$", most=each)
        self.append("", 10, like="^q[0-9]+$", most=10)
        self.append("jobs", size.jobs - was.jobs)
        self.append("dead", size.jobs // 10 - was.jobs // 10)
        self.run(JOBS, id=self.id("jobs"), done=size.jobs // 4)
        apart = 2 * max(10, int(size.records * LARGE_SHARE) // (2 * HOLES))  # even: a record with an odd seq is no hole
        self.run(MARK_HOLES, id=self.id("large"), apart=apart, holes=HOLES)
        self.add("routers", ROUTERS, was)
        self.add("cursors", CURSORS, was, topics=size.topics)
        self.add("groups", GROUPS, was)
        self.add("sessions", SESSIONS, was)
        self.add("topics", AUDIT, was)
        self.database.execute("VACUUM ANALYZE")

    def add(self, what: str, sql: str, was: Size, **values: Any) -> None:
        self.run(sql, first=getattr(was, what) + 1, last=getattr(self.size, what), **values)

    def append(self, name: str, each: int, like: str = "", most: int = 2**60) -> None:
        self.run(APPENDED, name=name, each=each, like=like, most=most, size=len(self.data), data=self.data)

    def run(self, sql: str, **values: Any) -> None:
        # psycopg gives a statement with values to PostgreSQL alone.
        for statement in sql.split(";\n"):
            if statement.strip():
                self.database.execute(statement.encode(), {"now": now_ms(), **values})

    def id(self, name: str) -> int:
        row = self.database.execute("SELECT id FROM topics_topic WHERE name = %s", [name]).fetchone()
        assert row is not None
        return int(row[0])
