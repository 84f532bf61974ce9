"""What time takes away: records over their topic's ttl, idempotency keys over their window, seqs that a head at rest keeps
reserved, and the lead of a clock that was ahead.

Reads and appends are exact without it; it moves floors, so that rows can be reclaimed, and keeps tables small. Each
function is one bounded step; tasks.py repeats them.
"""

from __future__ import annotations

from django.db import connection, transaction

STEP = 20_000  # seqs: the head is locked while what goes is counted
REST_MS = 5_000  # a topic that nobody wrote to for so long rests
MOST_LEAD_MS = 10_000  # a head whose last ts is further in the future than this has seen a clock that was ahead
MOST_HEADS = 1_000  # written in one step

# Topics whose oldest record is over its time. Its ts: two probes of an index a topic that has a ttl. Where a clock was ahead that
# ts may be a future one, so that only the expiry itself can tell.
EXPIRED = """
SELECT t.id
  FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id
 WHERE t.ttl_ms > 0 AND h.count > 0
   AND (topic_next_ts(t.id, h.floor_seq) < %s - t.ttl_ms OR EXISTS (SELECT FROM topics_clockstep WHERE topic_id = t.id))
 ORDER BY t.id
"""
LOCK = "SELECT FROM topics_topichead WHERE topic_id = %s FOR UPDATE"
# The ttl as of now, when nobody else can change it. What is over its time stays unseen until its turn comes.
EXPIRE = """
SELECT (topic_trim(id, least(topic_seq_at(id, floor_seq, head_seq, %s - ttl_ms) - 1, floor_seq + %s), 'ttl')).records
  FROM topics_topichead JOIN topics_topic ON id = topic_id
 WHERE id = %s AND ttl_ms > 0
"""
# By the index on ts. A key that an append is just renewing is not old any more: skipped.
OLD_KEYS = """
DELETE FROM topics_idempotencykey WHERE (topic_id, key) IN (
    SELECT k.topic_id, k.key FROM topics_idempotencykey k JOIN topics_topic t ON t.id = k.topic_id
     WHERE k.ts <= %s - t.idempotency_window_ms
     ORDER BY k.ts LIMIT %s FOR UPDATE OF k SKIP LOCKED)
"""
# A head that an append holds right now does not rest: skipped. That this commit does not wait for the disk is safe: should a
# crash take it back, the topic has more reserved than it needs, and should it stay, so did every append before it.
GIVE_BACK = """
UPDATE topics_topichead SET reserved_seq = head_seq
 WHERE topic_id IN (SELECT topic_id FROM topics_topichead WHERE reserved_seq > head_seq AND last_ts < %s
                     LIMIT %s FOR UPDATE SKIP LOCKED)
"""
# By PostgreSQL's clock, which all processes share: one machine whose clock went back must not take the others' time for the
# future. Records keep their ts. A second step takes the place of the first, with the latest ts of both.
SET_CLOCKS = """
WITH ahead AS (
    SELECT topic_id, head_seq, last_ts FROM topics_topichead WHERE last_ts > %(now)s + %(lead)s
     LIMIT %(most)s FOR UPDATE SKIP LOCKED),
told AS (
    INSERT INTO topics_clockstep AS step (topic_id, upto_seq, ts, until_ts)
    SELECT topic_id, head_seq, %(now)s, last_ts FROM ahead
    ON CONFLICT (topic_id) DO UPDATE
       SET upto_seq = excluded.upto_seq, ts = excluded.ts, until_ts = greatest(step.until_ts, excluded.until_ts))
UPDATE topics_topichead SET last_ts = %(now)s WHERE topic_id IN (SELECT topic_id FROM ahead)
"""
# A step is needed while a record is shown that is older than the step, or whose ts is below the latest (topic_seq_at.3.sql).
PAST_STEPS = """
DELETE FROM topics_clockstep step USING topics_topichead head
 WHERE head.topic_id = step.topic_id AND step.until_ts < %(now)s AND head.floor_seq >= step.upto_seq
   AND (topic_next_ts(head.topic_id, head.floor_seq) < step.until_ts) IS NOT TRUE
"""
SERVER_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


def expired_topics(now: int) -> list[int]:
    """Ids of the topics that hold something over its time."""
    with connection.cursor() as cursor:
        cursor.execute(EXPIRED, [now])
        return [row[0] for row in cursor.fetchall()]


def expire(topic_id: int, now: int, limit: int = STEP) -> int:
    """Move a topic's floor past what is over its time, by `limit` seqs at the most. Returns how many records went."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK, [topic_id])
        cursor.execute(EXPIRE, [now, limit, topic_id])
        row = cursor.fetchone()
    return int(row[0]) if row else 0  # None: deleted, or without a ttl, since we looked


def drop_old_keys(now: int, limit: int = STEP) -> int:
    """Forget idempotency keys that are over their topic's window. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(OLD_KEYS, [now, limit])
        return int(cursor.rowcount)


def give_back_seqs(now: int, limit: int = MOST_HEADS) -> int:
    """Have topics at rest reserve no seqs that they did not give out, so that a crash leaves no gap in them. Returns how many."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off")
        cursor.execute(GIVE_BACK, [now - REST_MS, limit])
        return int(cursor.rowcount)


def set_clocks(now: int, limit: int = MOST_HEADS) -> int:
    """Bound how far the ts of new records may lead after a clock was ahead. Returns in how many topics it did."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(PAST_STEPS, {"now": now})
        cursor.execute(SET_CLOCKS, {"now": now, "lead": MOST_LEAD_MS, "most": limit})
        return int(cursor.rowcount)


def server_now_ms() -> int:
    """PostgreSQL's time, in ms since the Unix epoch."""
    with connection.cursor() as cursor:
        cursor.execute(SERVER_NOW)
        return int(cursor.fetchone()[0])
