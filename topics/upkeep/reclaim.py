"""Frees the disk space of records that no topic shows any more (docs/routers.md).

A row can be removed if its home and all spans no longer show it. A step examines a chunk of one topic and commits. A step
that removes rows takes no lock that an append needs. A step counts the rows that must stay, and a later step examines these
again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from store.database import prepared
from topics.upkeep.unsettled import BY_INDEX, COUNTS, EXPIRES, LEADS, RESERVES

CHUNK = 2_000  # rows: about 10 ms, which an advance may have to wait
AGAIN_MS = 60_000  # held rows are examined again after this time
LONGEST_MS = (
    3_600_000  # those of a deleted topic after a tenth of the time since the delete, and at the latest after this one
)
MOST_TOPICS = 1_000  # per look
FEW, REST_MS = 100, 10_000  # up to FEW seqs wait until the topic had no append and no step for REST_MS

# DUE finds topics with rows to examine: below the floor, or marked deleted. DUE also finds topics with held rows for another
# examination, and topics at rest that SETTLE has to settle. All of them are unsettled (sql/functions/unsettled_heads.sql).
# Topics in use wait until enough rows are due. Otherwise transactions for a few rows of many topics would cost the appends a
# fifth of PostgreSQL's capacity.
#
# All rows of a deleted topic are to be examined, and each step says when the topic is due again (LATER). First come those that
# wait longest, so that each has its turn. Very many topics can be held for ever, and a look may not read them all.
#
# LIMIT makes the planner look up each pass: for a join, it would read those of all held topics.
#
# If a clock was ahead, a pass, a head or a deleted topic can have a future time: DUE does not wait for this time.
DUE = """
SELECT id
  FROM (SELECT topic.topic_id AS id
          FROM unsettled_heads() topic
          LEFT JOIN LATERAL (SELECT * FROM topics_reclaim WHERE topic_id = topic.topic_id LIMIT 1) pass ON true
         WHERE topic.floor_seq <> topic.reclaimed_seq
           AND ((topic.floor_seq >= coalesce(pass.next_seq, 1) OR coalesce(pass.held_records, 0) = 0)
                AND (topic.floor_seq - coalesce(pass.next_seq, 1) >= %(few)s
                     OR (topic.last_ts <= %(rested)s OR topic.last_ts > %(now)s)
                        AND (pass.updated_ts <= %(rested)s OR pass.updated_ts > %(now)s) IS NOT FALSE)
                OR EXISTS (SELECT FROM topics_record
                            WHERE topic_id = topic.topic_id AND deleted AND seq >= greatest(pass.next_seq, topic.floor_seq + 1))
                OR pass.held_records > 0 AND (pass.updated_ts <= %(again)s OR pass.updated_ts > %(now)s))
        UNION ALL
       (SELECT id FROM topics_deletedtopic WHERE due_ts <= %(now)s ORDER BY due_ts LIMIT %(most)s)
        UNION ALL
       (SELECT id FROM topics_deletedtopic WHERE due_ts > %(latest)s ORDER BY due_ts LIMIT %(most)s)) topic
 ORDER BY random()
 LIMIT %(most)s
"""
START = """
INSERT INTO topics_reclaim (topic_id, next_seq, held_records, reclaimed_records, updated_ts) VALUES (%s, 0, 0, 0, %s)
ON CONFLICT DO NOTHING
"""
# SKIP LOCKED leaves a topic to the worker with its lock. No commit waits for the disk: if a crash loses a step, a later
# pass does it again.
TAKE = """
SELECT next_seq, held_records, updated_ts,
       EXISTS (SELECT FROM topics_topichead head WHERE head.topic_id = pass.topic_id AND NOT routed),
       (SELECT deleted_ts FROM topics_deletedtopic WHERE id = pass.topic_id),
       set_config('synchronous_commit', 'off', true)
  FROM topics_reclaim pass WHERE topic_id = %s FOR UPDATE SKIP LOCKED
"""
EXAMINE = "SELECT examined, free, last_seq, floor_seq FROM reclaim_chunk(%s, %s, %s, %s)"
LOCK_ADVANCE = "SELECT reclaim_lock()"
# A delete by tag takes this lock, and then locks rows of the topic. Then reclaim of the topic has to wait.
TRY_LOCK_DELETE = "SELECT pg_try_advisory_xact_lock(7003, (%s %% 2147483648)::integer)"
SAVE = """
UPDATE topics_reclaim
   SET next_seq = %s, held_records = %s, updated_ts = %s, reclaimed_records = reclaimed_records + %s
 WHERE topic_id = %s
"""
LATER = "UPDATE topics_deletedtopic SET due_ts = %s WHERE id = %s"
# A delete marks rows and then locks the head until it commits. So under the head's lock a look finds all marked rows, or the
# delete unsettles the head afterwards. SKIP LOCKED leaves out a head that an append holds: a later step settles it.
LOCK_HEAD = "SELECT FROM topics_topichead WHERE topic_id = %s AND floor_seq < %s FOR NO KEY UPDATE SKIP LOCKED"
SETTLE = f"""
UPDATE topics_topichead SET reclaimed_seq = floor_seq, unsettled = {RESERVES} OR {COUNTS} OR {LEADS} OR {EXPIRES}
 WHERE topic_id = %s AND reclaimed_seq <> floor_seq
"""
END = """
WITH ended AS (
    DELETE FROM topics_deletedtopic
     WHERE id = %(id)s AND NOT EXISTS (SELECT FROM topics_record WHERE topic_id = %(id)s)
       AND NOT EXISTS (SELECT FROM topics_span WHERE topic_id = %(id)s)
    RETURNING id)
DELETE FROM topics_reclaim WHERE topic_id IN (SELECT id FROM ended)
"""


class ExaminedRows(NamedTuple):
    """The result of examining some rows. `last_seq`: None if there were no rows."""

    examined: int
    free: int
    last_seq: int | None
    floor_seq: int


class Reclaimed(NamedTuple):
    """The result of a step. `more`: whether the topic has more rows to examine."""

    removed: int
    held: int
    more: bool


NOTHING = Reclaimed(0, 0, False)


def due(now: int, limit: int = MOST_TOPICS) -> list[int]:
    """Returns ids of topics, live and deleted, with rows to examine."""
    times = {"now": now, "rested": now - REST_MS, "again": now - AGAIN_MS, "latest": now + LONGEST_MS}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(BY_INDEX)
        cursor.execute(DUE, {**times, "few": FEW, "most": limit})
        return [row[0] for row in cursor.fetchall()]


def reclaim(topic_id: int, now: int, limit: int = CHUNK) -> Reclaimed:
    """Examines the next rows of a topic and deletes the free ones, in one transaction."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            return reclaim_chunk(cursor, topic_id, now, limit)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return NOTHING  # advances are busy: the next beat tries again
        raise


def reclaim_chunk(cursor: Any, topic_id: int, now: int, limit: int) -> Reclaimed:
    rows = prepared(TAKE, (topic_id,)) or prepared(START, (topic_id, now)) or prepared(TAKE, (topic_id,))
    if not rows:
        return NOTHING
    next_seq, held, started_ts, unrouted, deleted_ts, _ = rows[0]
    # If no router leads out and no row is held, the due rows are usually free. Then the step deletes the rows at once.
    # Otherwise a look without locks comes first. Then the step takes the locks, examines the rows again and deletes the
    # free ones.
    locked = unrouted and not held
    if locked and not take_locks(topic_id):
        return NOTHING
    chunk = examine(topic_id, next_seq, limit, remove=locked)
    if chunk.last_seq is None and held and not now - AGAIN_MS < started_ts <= now:
        next_seq, held, started_ts = 0, 0, now
        chunk = examine(topic_id, next_seq, limit, remove=False)
    if chunk.free and not locked:
        if not take_locks(topic_id):
            return NOTHING
        chunk = examine(topic_id, next_seq, limit, remove=True)
    held += chunk.examined - chunk.free
    above_floor = chunk.floor_seq + 1
    examined = max(next_seq, above_floor) if chunk.last_seq is None else chunk.last_seq + 1
    # Rows above the floor can be marked at any time. So without held rows, the next step starts right above the floor
    # again. With held rows, this pass continues after the examined rows.
    next_seq = examined if held else min(examined, above_floor)
    prepared(SAVE, (next_seq, held, started_ts if held else now, chunk.free, topic_id))
    if deleted_ts is not None:
        is_held = chunk.last_seq is None and held
        prepared(LATER, (now + (held_ms(now - deleted_ts) if is_held else 0), topic_id))
    if chunk.last_seq is None and not held:
        settle(topic_id, next_seq)
        cursor.execute(END, {"id": topic_id})
    return Reclaimed(chunk.free, held, chunk.last_seq is not None)


def held_ms(age_ms: int) -> int:
    """Returns how long held rows of a topic wait that was deleted so long ago. After days they mostly stay for days."""
    return min(max(age_ms // 10, AGAIN_MS), LONGEST_MS)


def settle(topic_id: int, next_seq: int) -> None:
    """Notes on the head that no row is left to examine. Then due() reads the topic again only after its next removal.

    The caller commits at once, so an append waits a moment for the head's lock.
    """
    if prepared(LOCK_HEAD, (topic_id, next_seq)) and examine(topic_id, next_seq, 1, remove=False).last_seq is None:
        prepared(SETTLE, (topic_id,))


def examine(topic_id: int, first_seq: int, limit: int, *, remove: bool) -> ExaminedRows:
    (row,) = prepared(EXAMINE, (topic_id, first_seq, limit, remove))
    return ExaminedRows(*row)


def take_locks(topic_id: int) -> bool:
    return bool(prepared(LOCK_ADVANCE, ())[0][0] and prepared(TRY_LOCK_DELETE, (topic_id,))[0][0])
