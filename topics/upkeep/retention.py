"""Removes old data: expired records, idempotency keys after their window, reserved seqs of a head at rest, and the lead of
a clock that was ahead.

Reads and appends are exact without this module. The steps raise floors, so that rows can be reclaimed, and keep tables
small. Each function is one bounded step. tasks.py repeats the steps.
"""

from __future__ import annotations

from django.db import connection, transaction

from topics.heads import LOCK_HEAD

STEP = 20_000  # seqs: the head is locked while the step counts the expired records
REST_MS = 5_000  # a topic without an append for this time is at rest
MOST_LEAD_MS = 10_000  # a head whose last ts is further in the future was written with a clock that was ahead
MOST_HEADS = 1_000  # heads per step
WHOLE_LOOK_MS = 3_600_000  # between two looks at all idempotency keys
WINDOWS_LOOK_MS = 60_000  # between two looks at the windows of all topics: 17 ms for 100,000 topics
LATE_MS = 10_000  # a key can be written this long after its ts, by another host's clock
LEAST_TS = -(2**63)

# EXPIRED finds topics with an expired oldest record. Two index probes find the record's ts for each topic with a ttl. If a
# clock was ahead, this ts can be in the future, and only EXPIRE can decide.
EXPIRED = """
SELECT t.id
  FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id
 WHERE t.ttl_ms > 0 AND h.count > 0
   AND (topic_next_ts(t.id, h.floor_seq) < %s - t.ttl_ms OR EXISTS (SELECT FROM topics_clockstep WHERE topic_id = t.id))
 ORDER BY t.id
"""
# Uses the ttl of this moment. The head's lock keeps the ttl unchanged. Reads never show expired records, also before their step.
EXPIRE = """
SELECT (topic_trim(id, least(topic_seq_at(id, floor_seq, head_seq, %s - ttl_ms) - 1, floor_seq + %s), 'ttl')).records
  FROM topics_topichead JOIN topics_topic ON id = topic_id
 WHERE id = %s AND ttl_ms > 0
"""
WINDOWS = "SELECT DISTINCT idempotency_window_ms FROM topics_topic"
# Uses the index on ts. SKIP LOCKED leaves out a key that an append renews now: the key is not old any more.
OLD_KEYS = """
DELETE FROM topics_idempotencykey WHERE (topic_id, key) IN (
    SELECT k.topic_id, k.key FROM topics_idempotencykey k JOIN topics_topic t ON t.id = k.topic_id
     WHERE k.ts > %(above)s AND k.ts <= %(upto)s AND t.idempotency_window_ms = %(window)s
     ORDER BY k.ts LIMIT %(most)s FOR UPDATE OF k SKIP LOCKED)
"""
# SKIP LOCKED leaves out a head that an append holds, because the topic is not at rest. This commit need not wait for the
# disk. If a crash loses the commit, the topic has more reserved seqs than it needs. If the commit stays, every earlier
# append stays, too.
GIVE_BACK = """
UPDATE topics_topichead SET reserved_seq = head_seq
 WHERE topic_id IN (SELECT topic_id FROM topics_topichead WHERE reserved_seq > head_seq AND last_ts < %s
                     LIMIT %s FOR UPDATE SKIP LOCKED)
"""
# Uses PostgreSQL's clock, which all processes share. Otherwise a machine whose clock went back would treat times of the
# others as future ones. Records keep their ts. A second step replaces the first, with the latest ts of both.
#
# An append takes the later of the host's time and the head's last ts. A TTL and from_ts find seqs by binary search, so times
# must not fall in the order that the search sees. sql/functions/topic_seq_at.sql reads the step: until the latest ts is past,
# records up to the step count as written at the step. From then on, records after the step count as not older than the
# latest ts.
#
# Rejected: times that never fall, because a clock that was a year ahead for a second would give a year of records one time;
# corrected records, because a record never changes; a step that ends with the latest ts, because a TTL then deleted records
# that were seconds old; PostgreSQL's clock for every append, because it steps, too; several steps for a topic, because a
# host whose clock stays ahead would write one every 5 s.
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
# A step is needed while the topic shows a record from before the step, or a record with a ts below the latest
# (sql/functions/topic_seq_at.sql).
PAST_STEPS = """
DELETE FROM topics_clockstep step USING topics_topichead head
 WHERE head.topic_id = step.topic_id AND step.until_ts < %(now)s AND head.floor_seq >= step.upto_seq
   AND (topic_next_ts(head.topic_id, head.floor_seq) < step.until_ts) IS NOT TRUE
"""
SERVER_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


def expired_topics(now: int) -> list[int]:
    """Returns the ids of the topics that hold expired records."""
    with connection.cursor() as cursor:
        cursor.execute(EXPIRED, [now])
        return [row[0] for row in cursor.fetchall()]


def expire(topic_id: int, now: int, limit: int = STEP) -> int:
    """Raises a topic's floor above its expired records, by at most `limit` seqs. Returns the number of removed records."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK_HEAD, [topic_id])
        cursor.execute(EXPIRE, [now, limit, topic_id])
        row = cursor.fetchone()
    return int(row[0]) if row else 0  # no row: since then the topic was deleted or lost its ttl


class OldKeys:
    """Forgets the idempotency keys that are older than their topic's window.

    A topic with a long window keeps keys that are older than the keys to forget of other topics. So a look from the oldest key on
    would read every key that it keeps. Instead, a look begins where the last look at topics with this window ended. The
    first look, and then one in an hour, begins at the oldest key, because a topic with a new window can have older keys. If a
    window is new to all topics, its keys are forgotten up to a minute later.
    """

    def __init__(self) -> None:
        self.upto: dict[int, int] = {}  # by window: the last look forgot the keys up to this ts
        self.whole_ts = 0  # of the last look from the oldest key on
        self.windows: list[int] = []
        self.windows_ts = 0  # of the last look at them

    def drop(self, now: int, limit: int = STEP) -> int:
        """Deletes up to `limit` keys for each window. Returns their number."""
        if not 0 <= now - self.whole_ts < WHOLE_LOOK_MS:
            self.upto, self.whole_ts = {}, now
        if not 0 <= now - self.windows_ts < WINDOWS_LOOK_MS:
            with connection.cursor() as cursor:
                cursor.execute(WINDOWS)
                self.windows, self.windows_ts = [window for (window,) in cursor.fetchall()], now
        return sum(self.drop_of(window, now - window, limit) for window in self.windows)

    def drop_of(self, window: int, upto: int, limit: int) -> int:
        above = self.upto[window] - LATE_MS if window in self.upto else LEAST_TS
        with connection.cursor() as cursor:
            cursor.execute(OLD_KEYS, {"above": above, "upto": upto, "window": window, "most": limit})
            if cursor.rowcount < limit:
                self.upto[window] = upto
            return int(cursor.rowcount)


def give_back_seqs(now: int, limit: int = MOST_HEADS) -> int:
    """Releases unused reserved seqs of topics at rest: then a crash leaves no gap. Returns the number of topics."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off")
        cursor.execute(GIVE_BACK, [now - REST_MS, limit])
        return int(cursor.rowcount)


def set_clocks(now: int, limit: int = MOST_HEADS) -> int:
    """Limits the lead of new records' ts after a clock was ahead. Returns the number of changed topics."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(PAST_STEPS, {"now": now})
        cursor.execute(SET_CLOCKS, {"now": now, "lead": MOST_LEAD_MS, "most": limit})
        return int(cursor.rowcount)


def server_now_ms() -> int:
    """Returns PostgreSQL's time, in ms since the Unix epoch."""
    with connection.cursor() as cursor:
        cursor.execute(SERVER_NOW)
        return int(cursor.fetchone()[0])
