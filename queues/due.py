"""Appends the jobs of due schedules. A worker process calls append_due() each second (tasks.py)."""

from __future__ import annotations

import logging
from collections import deque

import msgspec

from base.errors import InvalidRequest, TopicFull, TopicsError
from contract.appending import NO_META
from queues.rows import as_rows, first_of_tags
from queues.schedules import next_ts, zone
from store.database import is_locked_out
from store.held import limited
from store.script import Script, Statement, atomically
from topics import limits, wake
from topics.append.judged import append_once
from topics.append.records import Append
from topics.append.statements import SYNC, array
from topics.cache import CachedTopic, forget_known, known_topic
from topics.heads import LOCK_HEADS

log = logging.getLogger(__name__)
MOST_JOBS = 500  # of one queue in one transaction
RETRY_MS = 60_000  # after a refusal of the queue
LOCK_MS = 100  # for a queue that another transaction holds
REMEMBERED_MS = 7 * 86_400_000  # of a schedule whose only job has come
# A range of the index on try_ts. Without a due schedule, the statement reads no row.
TOPICS = """
SELECT DISTINCT topic.id, topic.name
  FROM (SELECT topic_id FROM queues_schedule WHERE try_ts <= %s ORDER BY try_ts LIMIT 1000) due
  JOIN topics_topic topic ON topic.id = due.topic_id
"""
# The caller holds the lock of the head, so no other worker process appends these jobs now. If a PUT or a delete holds the row of
# a schedule, the schedule waits for the next second.
DUE = """
SELECT id, node, tag, meta::text, data::text, name, not_before, cron, timezone FROM queues_schedule
 WHERE topic_id = %s AND try_ts <= %s ORDER BY try_ts, id LIMIT %s FOR UPDATE SKIP LOCKED
"""
REPEAT = """
UPDATE queues_schedule schedule
   SET due_ts = next.ts, try_ts = next.ts, jobs = jobs + 1, last_ts = %s, last_seq = next.seq, error = NULL
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS next (id, ts, seq)
 WHERE schedule.id = next.id
"""
# Schedules whose next time could be too late. A table of one row for each schedule. Without cron, due_ts is not_before, or the
# time of the PUT by the clock of a web process.
LATER = """
SELECT id, cron, timezone, not_before, due_ts FROM queues_schedule WHERE due_ts > %s AND (cron IS NOT NULL OR due_ts > not_before)
"""
# A refusal stores its next try, which comes within RETRY_MS by a right clock. SKIP LOCKED leaves out a schedule that
# a PUT replaces or a delete of its queue removes now, because a delete locks many.
TRY_NOW = """
UPDATE queues_schedule SET try_ts = greatest(due_ts, %s)
 WHERE id = ANY (ARRAY(SELECT id FROM queues_schedule WHERE try_ts > greatest(due_ts, %s) FOR NO KEY UPDATE SKIP LOCKED))
RETURNING id
"""
SET_BACK = """
UPDATE queues_schedule schedule SET due_ts = next.ts, try_ts = next.ts
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS next (id, seen_ts, ts)
 WHERE schedule.id = next.id AND due_ts = seen_ts
"""
DONE = "DELETE FROM queues_schedule WHERE id = ANY (%s::bigint[])"
# A PUT of the same schedule finds this row, and gives no second job. A schedule from before the column has no not_before.
NOTE_DONE = """
INSERT INTO queues_done (topic_id, name, not_before, digest, ts, seq)
SELECT %s, name, not_before, digest::bytea, %s, seq
  FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[]) AS done (name, not_before, digest, seq)
 WHERE not_before IS NOT NULL
ON CONFLICT (topic_id, name) DO UPDATE
   SET not_before = excluded.not_before, digest = excluded.digest, ts = excluded.ts, seq = excluded.seq
"""
# A range of the index on ts. SKIP LOCKED leaves out a row that a PUT or a move holds: the jobs that are due need not wait for it.
FORGET_OLD = """
DELETE FROM queues_done WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM queues_done WHERE ts < %s ORDER BY ts LIMIT 1000 FOR UPDATE SKIP LOCKED))
"""
# Leaves out held schedules like TRY_NOW.
REFUSED = """
UPDATE queues_schedule SET try_ts = %s, error = %s
 WHERE id = ANY (ARRAY(SELECT id FROM queues_schedule WHERE topic_id = %s AND try_ts <= %s FOR NO KEY UPDATE SKIP LOCKED))
"""


def append_due(now: int) -> Script[int]:
    """Appends the job of each due schedule, and plans the next one. Returns the number of jobs.

    If a queue refuses a job, the due schedules of the queue try again after a minute. If an application holds the queue in a
    transaction, they try again after a second, because the other queues wait for their turn.
    """
    yield Statement(FORGET_OLD, (now - REMEMBERED_MS,))
    jobs, most = 0, MOST_JOBS
    due = deque((yield Statement(TOPICS, (now,))))
    while due:
        topic_id, name = due[0]
        try:
            count = yield from append_to(name, now, most)
        except TopicFull as error:
            if most > 1:
                most //= 2  # a part of the jobs can fit
                continue
            yield from refuse(topic_id, name, error, now)
            count = 0
        except TopicsError as error:
            if not is_locked_out(error):
                yield from refuse(topic_id, name, error, now)
            count = 0
        jobs += count
        if not count:
            due.popleft()
            most = MOST_JOBS
    return jobs


def set_back(now: int) -> Script[int]:
    """Plans schedules again if a clock that was ahead has stored a time later than their next one. Returns their number."""
    untried = yield Statement(TRY_NOW, (now, now + RETRY_MS))
    late = []
    for id, cron, timezone, not_before, due_ts in (yield Statement(LATER, (now,))):
        earliest_ts = max(now, int(not_before or 0))
        following_ts = earliest_ts if cron is None else following(cron, timezone, max(now, earliest_ts - 1))
        if following_ts is not None and following_ts < int(due_ts):
            late.append((id, due_ts, following_ts))
    if late:
        yield Statement(SET_BACK, tuple(map(list, zip(*late, strict=True))))
    if found := len(late) + len(untried):
        log.warning("A clock was ahead: set back %d schedules. Their next jobs would have come too late", found)
    return found


def refuse(topic_id: int, name: str, error: TopicsError, now: int) -> Script[None]:
    log.warning("Queue %s refused the jobs of its schedules: %s. The next try follows in a minute", name, error.message)
    yield Statement(REFUSED, (now + RETRY_MS, error.message, topic_id, now))


def append_to(name: str, now: int, most: int) -> Script[int]:
    """Appends at most `most` due jobs to a queue, in one transaction. Returns their number.

    Raises TopicsError if the queue refuses the jobs.
    """
    while True:
        topic = yield from known_topic(name)
        if topic is None:
            return 0
        found = yield from atomically(append_locked(topic, now, most), topic.id)
        if found is not None:
            count, head_seq = found
            if count:
                wake.moved(topic, head_seq)
            return count
        forget_known(topic)


def append_locked(topic: CachedTopic, now: int, most: int) -> Script[tuple[int, int] | None]:
    """Returns the number of jobs, and the head of the queue. Returns None if the topic has another version."""
    yield limited(LOCK_MS)
    yield Statement(LOCK_HEADS, (array([topic.id]),))
    due = yield Statement(DUE, (topic.id, now, most))
    if topic.unique_tags:
        due, _ = first_of_tags(due)  # the others are due in the next transaction
    if not due:
        return 0, 0
    metas = [NO_META if row[3] is None else msgspec.Raw(row[3].encode()) for row in due]
    rows = as_rows(due, metas)
    if limits.MOST_TOTAL_BYTES:
        yield from limits.check_total_bytes(rows.bytes)
    done = yield from append_once(topic, Append(records=[]), rows, now)
    if done is None:
        return None
    yield Statement(SYNC, ("on",))  # the transaction deletes schedules, so its jobs must survive a crash
    ended, again = [], []
    for (id, *_, schedule, not_before, cron, timezone), seq, digest in zip(due, done.seqs, rows.digests(), strict=True):
        next_time = following(cron, timezone, now)
        if next_time is None:
            ended.append((id, schedule, not_before, digest, seq))
        else:
            again.append((id, next_time, seq))
    if ended:
        ids, *noted = map(list, zip(*ended, strict=True))
        yield Statement(DONE, (ids,))
        yield Statement(NOTE_DONE, (topic.id, now, *noted))
    if again:
        yield Statement(REPEAT, (now, *map(list, zip(*again, strict=True))))
    return len(due), done.head_seq


def following(cron: str | None, timezone: str, now: int) -> int | None:
    """Returns the time of the next job, or None after the last one. Of several times that have passed, one counts."""
    if cron is None:
        return None
    try:
        return next_ts(cron, zone(timezone), now)
    except InvalidRequest as error:  # no time in the next 50 years, or the server lost a timezone that it knew
        log.warning("A schedule ends after this job: %s", error.message)
        return None
