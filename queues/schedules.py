"""Schedules: jobs that a queue gets later, at a time or by a cron line (docs/queues.md). due.py appends the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from django.conf import settings

from base.errors import InvalidRequest, NotFound
from base.names import check_topic_name
from contract.appending import NO_META
from queues.leases import not_a_queue
from store import disk
from store.script import Script, Statement, atomically
from topics.append.doubles import ALONE, check_numbers
from topics.append.records import Rows
from topics.cache import CachedTopic, as_known
from topics.heads import LOCK_HEAD, LOCK_TOPIC
from topics.models import Topic
from topics.sealed import IS_CURRENT, marked
from wire import limits

COLUMNS = "name, cron, timezone, not_before, due_ts, jobs, last_ts, last_seq, error"
WHOLE = f"{COLUMNS}, tag, node, meta::text, data::text"
ONE = f"SELECT {WHOLE} FROM queues_schedule WHERE topic_id = %s AND name = %s"
# A range of the unique index.
PAGE = f"""
SELECT {COLUMNS}, CASE WHEN %(characters)s > 0 THEN left(data::text, %(characters)s) END FROM queues_schedule
 WHERE topic_id = %(topic_id)s AND name > %(after)s ORDER BY name LIMIT %(limit)s
"""
# An application puts its schedules at each start. If a job is due and no worker process has looked yet, the job must still come.
NEXT = """
CASE WHEN schedule.cron IS NOT DISTINCT FROM excluded.cron AND schedule.timezone = excluded.timezone
      AND schedule.due_ts <= %(now)s AND coalesce(excluded.not_before, 0) <= %(now)s
     THEN schedule.due_ts ELSE excluded.due_ts END
"""
PUT = f"""
INSERT INTO queues_schedule AS schedule
       (topic_id, name, cron, timezone, not_before, due_ts, try_ts, tag, node, meta, data)
VALUES (%(topic_id)s, %(name)s, %(cron)s, %(timezone)s, %(not_before)s, %(due_ts)s, %(due_ts)s, %(tag)s, %(node)s,
        %(meta)s::json, %(data)s::json)
ON CONFLICT (topic_id, name) DO UPDATE
   SET cron = excluded.cron, timezone = excluded.timezone, not_before = excluded.not_before, due_ts = {NEXT}, try_ts = {NEXT},
       error = NULL, tag = excluded.tag, node = excluded.node, meta = excluded.meta, data = excluded.data
RETURNING xmax = 0, {WHOLE}
"""
# The primary key of queues_done.
WHEN_DONE = "SELECT ts, seq FROM queues_done WHERE topic_id = %s AND name = %s AND not_before = %s AND digest = %s"
FORGET = "DELETE FROM queues_done WHERE topic_id = %s AND name = %s"
DELETE = "DELETE FROM queues_schedule WHERE topic_id = %s AND name = %s RETURNING id"
COUNT = "SELECT count(*) FROM (SELECT FROM queues_schedule LIMIT %s) counted"
MOST_CRON_CHARACTERS = 100
LATEST_TS = 253_402_214_400_000  # the last day of the year 9999, the last of datetime


class StoredSchedule(NamedTuple):
    """A stored schedule. Times are in ms since the epoch. `record`: tag, node, meta and data of the jobs.

    In a list, `record` has the beginning of data as text, or is None. `due_ts`: None if its only job has come.
    """

    name: str
    cron: str | None
    timezone: str
    not_before: int | None
    due_ts: int | None
    jobs: int
    last_ts: int | None
    last_seq: int | None
    error: str | None
    record: dict[str, Any] | None


class Times(NamedTuple):
    """When a schedule appends its jobs: once at `not_before` (ms), or by the cron line from then on. Both None: invalid."""

    not_before: int | None
    cron: str | None
    timezone: str

    def first(self, now: int) -> int:
        """Returns the time of the first job: a `not_before` in the past means now. Raises InvalidRequest."""
        if self.cron is None:
            if self.timezone != "UTC":
                raise InvalidRequest("timezone is for cron: leave timezone out", field="timezone")
            if self.not_before is None:
                raise InvalidRequest(
                    "not_before and cron are missing: send a time, a cron line, or both", field="not_before"
                )
            return max(now, self.not_before)
        return next_ts(self.cron, zone(self.timezone), max(now, (self.not_before or 0) - 1))


def zone(name: str) -> ZoneInfo:
    """Raises InvalidRequest."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"unknown timezone {name!r}: expected a name of the IANA database, such as Europe/Berlin"
        raise InvalidRequest(message, field="timezone") from error


def next_ts(cron: str, zone: ZoneInfo, after: int) -> int:
    """Returns the first time after `after` that the cron line names, in ms. Raises InvalidRequest."""
    invalid = f"invalid cron {cron!r}: expected five fields, minute, hour, day, month, weekday, such as '0 3 * * *'"
    if len(cron) > MOST_CRON_CHARACTERS or len(cron.split()) != 5:
        raise InvalidRequest(invalid, field="cron")
    try:
        named = CronSim(cron, datetime.fromtimestamp(after // 1000, zone))
        # In an hour that the clocks repeat, CronSim begins with the times of the first hour, which have passed.
        return next(ts for found in named if (ts := int(found.timestamp() * 1000)) > after)
    except CronSimError as error:
        raise InvalidRequest(f"{invalid} ({error})", field="cron") from error
    except (StopIteration, OverflowError) as error:
        raise InvalidRequest(f"cron {cron!r} names no time in the next 50 years", field="cron") from error


def put_schedule(topic: str, name: str, times: Times, rows: Rows, now: int) -> Script[tuple[StoredSchedule, bool]]:
    """Creates or replaces a schedule for jobs with this record. Returns the schedule, and whether it is new.

    If the call repeats the one that made a schedule for one job, and this job has come, the call changes nothing.

    Raises TopicNotFound, NotAQueue, InvalidRequest, StorageFull or Throttled.
    """
    disk.check()
    check_topic_name(name, "schedule")
    meta = rows.metas[0]
    columns = {
        "name": name,
        "cron": times.cron,
        "timezone": times.timezone,
        "not_before": times.not_before,
        "due_ts": times.first(now),
        "now": now,
        "tag": rows.tags[0],
        "node": rows.nodes[0],
        "meta": None if meta == NO_META else bytes(meta).decode(),
        "data": bytes(rows.data[0]).decode(),
    }
    return (yield from atomically(put_locked(topic, columns, rows), (topic, name)))


def put_locked(topic: str, columns: dict[str, Any], rows: Rows) -> Script[tuple[StoredSchedule, bool]]:
    yield Statement(LOCK_TOPIC, (topic,))  # until the commit, no call deletes the topic
    queue = yield from queue_of(topic)
    # A worker process that appends jobs holds the head. So a job of this schedule has come, and is noted, or has not come yet.
    yield Statement(LOCK_HEAD, (queue.id,))
    name, not_before = columns["name"], columns["not_before"]
    if columns["cron"] is None:
        done = yield Statement(WHEN_DONE, (queue.id, name, not_before, rows.digest()))
        if done:
            record = (columns["tag"], columns["node"], columns["meta"], columns["data"])
            return stored((name, None, "UTC", not_before, None, 1, *done[0], None, *record)), False
    if queue.takes_doubles:
        check_numbers(rows, ALONE)
    yield Statement(FORGET, (queue.id, name))
    ((is_new, *row),) = yield Statement(PUT, {"topic_id": queue.id, **columns})
    if is_new:
        yield from check_cap()
    return stored(row), is_new


def check_cap() -> Script[None]:
    """Raises Throttled if there are more schedules than the cap. The refusal rolls back the call that made one too many."""
    most = settings.TOPICS_MAX_SCHEDULES
    if most:
        ((count,),) = yield Statement(COUNT, (most + 1,))
        limits.check("schedules", most, count - 1, limits.LATER)


def get_schedule(topic: str, name: str) -> Script[StoredSchedule]:
    """Raises TopicNotFound, NotAQueue or NotFound."""
    queue = yield from queue_of(topic)
    rows = yield Statement(ONE, (queue.id, name), quick=True)
    if not rows:
        raise NotFound(f"queue {topic!r} has no schedule {name!r}", topic=topic, schedule=name)
    return stored(rows[0])


def page_of_schedules(topic: str, after: str, limit: int, characters: int = 0) -> Script[list[StoredSchedule]]:
    """Returns the next schedules by name, with this many characters of data. Raises TopicNotFound or NotAQueue."""
    queue = yield from queue_of(topic)
    wanted = {"topic_id": queue.id, "after": after, "limit": limit, "characters": characters}
    rows = yield Statement(PAGE, wanted, quick=True)
    return [StoredSchedule._make((*columns, None if data is None else {"data": data})) for *columns, data in rows]


def delete_schedule(topic: str, name: str) -> Script[bool]:
    """Returns whether the schedule existed. Raises TopicNotFound or NotAQueue."""
    check_topic_name(name, "schedule")
    queue = yield from queue_of(topic)
    deleted = yield Statement(DELETE, (queue.id, name))
    yield Statement(FORGET, (queue.id, name))  # after a worker process that was about to append the job
    return bool(deleted)


def queue_of(name: str) -> Script[CachedTopic]:
    """Returns a queue. Raises TopicNotFound or NotAQueue."""

    def look(topic: CachedTopic) -> Script[CachedTopic | None]:
        if not (yield Statement(IS_CURRENT, (topic.id, topic.version), quick=True)):
            return None
        if topic.type != Topic.Type.QUEUE:
            raise marked(not_a_queue(name), topic.sealed)
        return topic

    return as_known(name, look)


def stored(row: Sequence[Any]) -> StoredSchedule:
    """Returns the schedule of a row of ONE."""
    *columns, tag, node, meta, data = row
    record = {"tag": tag, "node": node, "meta": meta and msgspec.Raw(meta.encode()), "data": msgspec.Raw(data.encode())}
    return StoredSchedule._make((*columns, record))
