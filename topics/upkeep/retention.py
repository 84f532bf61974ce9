"""Removes old data: expired records, idempotency keys after their window, reserved seqs of a head at rest, and the lead of
a clock that was ahead.

Reads and appends are exact without this module. The steps raise floors, so that rows can be reclaimed, and keep tables
small. Each function is one bounded step. tasks.py repeats the steps.
"""

from __future__ import annotations

from django.db import connection, transaction

from store.database import changed_rows, prepared
from topics.heads import MOST_LEAD_MS
from topics.upkeep.unsettled import BY_INDEX, COUNTS, EXPIRES, LEADS, RECLAIMS

STEP = 20_000  # keys
REST_MS = 5_000  # a topic without an append for this time is at rest
MOST_HEADS = 1_000  # heads per step
WHOLE_LOOK_MS = 3_600_000  # between two looks at all idempotency keys
LATE_MS = 10_000  # a key can be written this long after its ts, by another host's clock
LEAST_TS = -(2**63)

# NOTE finds topics with a TTL that had no records when expiry last looked. A scalar subquery stays one look-up by the primary
# key, whatever the planner estimates.
NOTE = """
INSERT INTO topics_expiry (topic_id, due_ts)
SELECT head.topic_id, topic_next_ts(head.topic_id, head.floor_seq) + topic.ttl_ms
  FROM unsettled_heads() head
 CROSS JOIN LATERAL (SELECT ttl_ms FROM topics_topic WHERE id = head.topic_id AND ttl_ms > 0 OFFSET 0) topic
 WHERE head.count > 0 AND (SELECT due_ts FROM topics_expiry WHERE topic_id = head.topic_id) IS NULL
 ORDER BY head.topic_id
 LIMIT %(most)s
ON CONFLICT DO NOTHING
"""
# DUE finds the topics whose oldest record has expired, first those that wait longest. If a clock was ahead, the time of a record
# can be in the future, and only EXPIRE can decide. So DUE returns those of the given topics, which have a step of the clock, too.
DUE = """
SELECT topic_id FROM (SELECT topic_id FROM topics_expiry WHERE due_ts < %(now)s ORDER BY due_ts LIMIT %(most)s) due
 UNION
SELECT topic_id FROM unnest(%(stepped)s::bigint[]) AS step (topic_id)
 CROSS JOIN LATERAL (SELECT FROM topics_topic WHERE id = step.topic_id AND ttl_ms > 0 OFFSET 0) topic
 CROSS JOIN LATERAL (SELECT FROM topics_topichead WHERE topic_id = step.topic_id AND count > 0 LIMIT 1) head
"""
LOCK = "SELECT expire_lock(%s)"
# Uses the ttl of this moment. The head's lock keeps the ttl unchanged. Reads never show expired records, also before their step.
EXPIRE = """
SELECT topic_expire(id, %s - ttl_ms) FROM topics_topic WHERE id = %s AND ttl_ms > 0
"""
# When the next record expires. The caller holds the head's lock: a later append to the empty topic unsettles the head. The
# row of a deleted topic goes, too, because a delete does not see the row of a round that notes the topic and has not committed.
NEXT = """
WITH next AS MATERIALIZED (
    SELECT topic_id, topic_next_ts(topic_id, floor_seq) + ttl_ms AS due_ts
      FROM topics_topichead JOIN topics_topic ON id = topic_id
     WHERE topic_id = %(id)s AND count > 0 AND ttl_ms > 0 LIMIT 1),
gone AS (
    DELETE FROM topics_expiry WHERE topic_id = %(id)s AND NOT EXISTS (SELECT FROM next))
INSERT INTO topics_expiry SELECT * FROM next ON CONFLICT (topic_id) DO UPDATE SET due_ts = excluded.due_ts
"""
# Each window takes a probe of the index.
WINDOWS = """
WITH RECURSIVE found (window_ms) AS (
    SELECT min(idempotency_window_ms) FROM topics_topic
     UNION ALL
    SELECT (SELECT min(idempotency_window_ms) FROM topics_topic WHERE idempotency_window_ms > window_ms)
      FROM found WHERE window_ms IS NOT NULL)
SELECT window_ms FROM found WHERE window_ms IS NOT NULL
"""
# Uses the index on ts. SKIP LOCKED leaves out a key that an append renews now: the key is not old any more.
OLD_KEYS = """
DELETE FROM topics_idempotencykey WHERE ctid = ANY (ARRAY(
    SELECT k.ctid
      FROM topics_idempotencykey k
     CROSS JOIN LATERAL (SELECT FROM topics_topic WHERE id = k.topic_id AND idempotency_window_ms = %(window)s OFFSET 0) topic
     WHERE k.ts > %(above)s AND k.ts <= %(upto)s
     ORDER BY k.ts LIMIT %(most)s FOR UPDATE OF k SKIP LOCKED))
"""
# SKIP LOCKED leaves out a head that an append holds, because the topic is not at rest. This commit need not wait for the
# disk. If a crash loses the commit, the topic has more reserved seqs than it needs. If the commit stays, every earlier
# append stays, too. A topic whose routers lag stays unsettled, so that their sweep finds it (routers/tasks.py). It is left out
# before LIMIT, because paused routers can lag for ever.
GIVE_BACK = f"""
UPDATE topics_topichead SET reserved_seq = head_seq, unsettled = {COUNTS} OR {RECLAIMS} OR {LEADS} OR {EXPIRES}
 WHERE topic_id = ANY (ARRAY(
       SELECT head.topic_id
         FROM (SELECT topic_id FROM unsettled_heads() early
                WHERE reserved_seq > head_seq AND last_ts < %(rested)s
                  AND NOT (routed AND EXISTS (
                      SELECT FROM topics_cursor c
                       WHERE c.topic_id = early.topic_id AND kind = 'router' AND seq < early.head_seq))
                LIMIT %(most)s) found
        CROSS JOIN LATERAL (SELECT topic_id FROM topics_topichead
                             WHERE topic_id = found.topic_id AND reserved_seq > head_seq AND last_ts < %(rested)s
                               FOR UPDATE SKIP LOCKED) head))
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
    SELECT head.topic_id, head.head_seq, head.last_ts
      FROM (SELECT topic_id FROM unsettled_heads() WHERE last_ts > %(now)s + %(lead)s LIMIT %(most)s) early
     CROSS JOIN LATERAL (SELECT topic_id, head_seq, last_ts FROM topics_topichead
                          WHERE topic_id = early.topic_id AND last_ts > %(now)s + %(lead)s FOR UPDATE SKIP LOCKED) head),
told AS (
    INSERT INTO topics_clockstep AS step (topic_id, upto_seq, ts, until_ts)
    SELECT topic_id, head_seq, %(now)s, last_ts FROM ahead
    ON CONFLICT (topic_id) DO UPDATE
       SET upto_seq = excluded.upto_seq, ts = excluded.ts, until_ts = greatest(step.until_ts, excluded.until_ts))
UPDATE topics_topichead SET last_ts = %(now)s WHERE topic_id = ANY (ARRAY(SELECT topic_id FROM ahead))
"""
# A step is needed while the topic shows a record from before the step, or a record with a ts below the latest
# (sql/functions/topic_seq_at.sql). In a topic without a TTL and caps, this can be for ever.
STEPS = "SELECT topic_id FROM topics_clockstep WHERE topic_id > %s ORDER BY topic_id LIMIT %s"
PAST_STEPS = """
DELETE FROM topics_clockstep WHERE until_ts < %(now)s AND topic_id = ANY (ARRAY(
    SELECT step.topic_id
      FROM topics_clockstep step
     CROSS JOIN LATERAL (SELECT topic_id, floor_seq FROM topics_topichead WHERE topic_id = step.topic_id LIMIT 1) head
     WHERE step.topic_id = ANY (%(stepped)s) AND head.floor_seq >= step.upto_seq
       AND (topic_next_ts(head.topic_id, head.floor_seq) < step.until_ts) IS NOT TRUE))
"""


class SteppedTopics:
    """The topics with a step of the clock. A round takes some of them, because after a step of the clock of a server very many
    topics can keep theirs for ever."""

    def __init__(self) -> None:
        self.after = 0  # the last topic that this process has taken

    def take(self, limit: int) -> list[int]:
        """Returns the ids of the next topics. After the last topic follows the first."""
        ids = [id for (id,) in prepared(STEPS, (self.after, limit))]
        self.after = ids[-1] if len(ids) == limit else 0
        return ids


stepped_to_expire, stepped_to_settle = SteppedTopics(), SteppedTopics()


def expired_topics(now: int, limit: int = MOST_HEADS) -> list[int]:
    """Returns the ids of topics that hold expired records. A few of them may hold none."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(BY_INDEX)
        cursor.execute(NOTE, {"most": limit})
        cursor.execute(DUE, {"now": now, "most": limit, "stepped": stepped_to_expire.take(limit)})
        return [row[0] for row in cursor.fetchall()]


def expire(topic_id: int, now: int) -> int:
    """Raises a topic's floor above its expired records, by one step, and notes when more expire. Returns the number of removed
    records. It is 0, too, if another transaction keeps the head: the next round tries again."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK, [topic_id])
        if cursor.fetchone() != (True,):
            return 0
        cursor.execute(EXPIRE, [now, topic_id])
        row = cursor.fetchone()
        cursor.execute(NEXT, {"id": topic_id})
    return int(row[0]) if row else 0  # no row: since then the topic was deleted or lost its ttl


class OldKeys:
    """Forgets the idempotency keys that are older than their topic's window.

    A topic with a long window keeps keys that are older than the keys to forget of other topics. So a look from the oldest key on
    would read every key that it keeps. Instead, a look begins where the last look at topics with this window ended. The
    first look, and then one in an hour, begins at the oldest key, because a topic with a new window can have older keys.
    """

    def __init__(self) -> None:
        self.upto: dict[int, int] = {}  # by window: the last look forgot the keys up to this ts
        self.whole_ts = 0  # of the last look from the oldest key on

    def drop(self, now: int, limit: int = STEP) -> int:
        """Deletes up to `limit` keys for each window. Returns their number."""
        if not 0 <= now - self.whole_ts < WHOLE_LOOK_MS:
            self.upto, self.whole_ts = {}, now
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(BY_INDEX)
            cursor.execute(WINDOWS)
            windows = [window for (window,) in cursor.fetchall()]
        return sum(self.drop_of(window, now - window, limit) for window in windows)

    def drop_of(self, window: int, upto: int, limit: int) -> int:
        above = self.upto[window] - LATE_MS if window in self.upto else LEAST_TS
        count = changed_rows(OLD_KEYS, {"above": above, "upto": upto, "window": window, "most": limit})
        if count < limit:
            self.upto[window] = upto
        return count


def give_back_seqs(now: int, limit: int = MOST_HEADS) -> int:
    """Releases unused reserved seqs of topics at rest: then a crash leaves no gap. Returns the number of topics."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off")
        cursor.execute(BY_INDEX)
        cursor.execute(GIVE_BACK, {"rested": now - REST_MS, "most": limit})
        return int(cursor.rowcount)


def set_clocks(now: int, limit: int = MOST_HEADS) -> int:
    """Limits the lead of new records' ts after a clock was ahead. Returns the number of changed topics."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(BY_INDEX)
        cursor.execute(PAST_STEPS, {"now": now, "stepped": stepped_to_settle.take(limit)})
        cursor.execute(SET_CLOCKS, {"now": now, "lead": MOST_LEAD_MS, "most": limit})
        return int(cursor.rowcount)
