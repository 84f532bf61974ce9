"""Appends the jobs of due schedules. A worker process calls append_due() each second (tasks.py)."""

from __future__ import annotations

import logging
from collections import deque

import msgspec

from base.errors import InvalidRequest, TopicFull, TopicsError
from queues.rows import as_rows, first_of_tags
from queues.schedules import next_ts, zone
from store.script import Script, Statement, atomically
from topics import wake
from topics.cache import CachedTopic, forget_known, known_topic
from topics.heads import LOCK_HEADS
from topics.insert import SYNC, array
from topics.judged import append_once
from topics.records import NO_META, Append

log = logging.getLogger(__name__)
MOST_JOBS = 500  # of one queue in one transaction
RETRY_MS = 60_000  # after a refusal of the queue
# A range of the index on try_ts. Without a due schedule, the statement reads no row.
TOPICS = """
SELECT DISTINCT topic.id, topic.name
  FROM (SELECT topic_id FROM queues_schedule WHERE try_ts <= %s ORDER BY try_ts LIMIT 1000) due
  JOIN topics_topic topic ON topic.id = due.topic_id
"""
# The caller holds the lock of the head, so no other worker process appends these jobs now. If a PUT or a delete holds the row of
# a schedule, the schedule waits for the next second.
DUE = """
SELECT id, node, tag, meta::text, data::text, cron, timezone FROM queues_schedule
 WHERE topic_id = %s AND try_ts <= %s ORDER BY try_ts, id LIMIT %s FOR UPDATE SKIP LOCKED
"""
REPEAT = """
UPDATE queues_schedule schedule
   SET due_ts = next.ts, try_ts = next.ts, jobs = jobs + 1, last_ts = %s, last_seq = next.seq, error = NULL
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS next (id, ts, seq)
 WHERE schedule.id = next.id
"""
DONE = "DELETE FROM queues_schedule WHERE id = ANY (%s::bigint[])"
REFUSED = "UPDATE queues_schedule SET try_ts = %s, error = %s WHERE topic_id = %s AND try_ts <= %s"


def append_due(now: int) -> Script[int]:
    """Appends the job of each due schedule, and plans the next one. Returns the number of jobs.

    If a queue refuses a job, the due schedules of the queue try again after a minute.
    """
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
            yield from refuse(topic_id, name, error, now)
            count = 0
        jobs += count
        if not count:
            due.popleft()
            most = MOST_JOBS
    return jobs


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
    yield Statement(LOCK_HEADS, (array([topic.id]),))
    due = yield Statement(DUE, (topic.id, now, most))
    if topic.unique_tags:
        due, _ = first_of_tags(due)  # the others are due in the next transaction
    if not due:
        return 0, 0
    metas = [NO_META if row[3] is None else msgspec.Raw(row[3].encode()) for row in due]
    done = yield from append_once(topic, Append(records=[]), as_rows(due, metas), now)
    if done is None:
        return None
    yield Statement(SYNC, ("on",))  # the transaction deletes schedules, so its jobs must survive a crash
    next_times = [following(cron, timezone, now) for *_, cron, timezone in due]
    again = [(row[0], ts, seq) for row, ts, seq in zip(due, next_times, done.seqs, strict=True) if ts is not None]
    yield Statement(DONE, ([row[0] for row, ts in zip(due, next_times, strict=True) if ts is None],))
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
