"""What time takes away: records over their topic's ttl, and idempotency keys over their window.

Reads and appends are exact without it (contract.md section 2); it moves floors, so that rows can be reclaimed,
and keeps tables small. Each function is one bounded step; tasks.py repeats them.
"""

from __future__ import annotations

from django.db import connection, transaction

STEP = 20_000  # seqs: the head is locked while what goes is counted

# Topics whose oldest record is over its time. Its ts: two probes of an index a topic that has a ttl.
EXPIRED = """
SELECT t.id
  FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id
 WHERE t.ttl_ms > 0 AND h.count > 0 AND topic_next_ts(t.id, h.floor_seq) < %s - t.ttl_ms
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


def expired_topics(now: int) -> list[int]:
    """Ids of the topics that hold something over its time."""
    with connection.cursor() as cursor:
        cursor.execute(EXPIRED, [now])
        return [row[0] for row in cursor.fetchall()]


def expire(topic_id: int, now: int, limit: int = STEP) -> int:
    """Move a topic's floor past what is over its time, by `limit` seqs at the most. Answers how many records went."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK, [topic_id])
        cursor.execute(EXPIRE, [now, limit, topic_id])
        row = cursor.fetchone()
    return int(row[0]) if row else 0  # None: deleted, or without a ttl, since we looked


def drop_old_keys(now: int, limit: int = STEP) -> int:
    """Forget idempotency keys that are over their topic's window. Answers how many."""
    with connection.cursor() as cursor:
        cursor.execute(OLD_KEYS, [now, limit])
        return int(cursor.rowcount)
