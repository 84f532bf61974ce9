"""The time of each topic's last read. Reads note this time in memory. About once a second a process writes it down, outside
of reads and without waiting for an append (docs/wire.md, `last_read_ts` and `effective_priority`)."""

from __future__ import annotations

from django.db import connection

MAX_PRIORITY = 1000
MOST = 100_000  # topics noted between two flushes

# The statement skips a head that an append holds, and the next flush tries again. An append waits at most for the commit of
# this statement, which does not wait for the disk.
FLUSH = """
WITH noted AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[]) AS noted (topic_id, ts)),
free AS (
    SELECT head.topic_id FROM topics_topichead head JOIN noted USING (topic_id) FOR UPDATE OF head SKIP LOCKED),
written AS (
    UPDATE topics_topichead head SET last_read_ts = noted.ts FROM noted
     WHERE head.topic_id = noted.topic_id AND head.topic_id IN (SELECT topic_id FROM free)
       AND head.last_read_ts < noted.ts)
SELECT topic_id FROM free
UNION ALL
SELECT topic_id FROM noted WHERE NOT EXISTS (SELECT FROM topics_topichead head WHERE head.topic_id = noted.topic_id)
"""

_noted: dict[int, int] = {}


def note(topic_id: int, now: int) -> None:
    """Notes that a topic was read."""
    _noted[topic_id] = now
    if len(_noted) > MOST:
        _noted.clear()


def last_read(topic_id: int, written_ts: int) -> int:
    """Returns the time of the last known read. `written_ts` is the time in the head."""
    return max(_noted.get(topic_id, 0), written_ts)


def flush() -> int:
    """Writes down the noted reads. Returns the number of topics that are done."""
    noted = dict(_noted)
    if not noted:
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        cursor.execute(FLUSH, [list(noted), list(noted.values())])
        done = [id for (id,) in cursor.fetchall()]
    for id in done:
        if _noted.get(id) == noted[id]:
            del _noted[id]
    return len(done)


def effective_priority(priority: int | None, auto_priority: bool, touched_ts: int, now: int) -> int:
    """Returns the priority that was set, or else minus the whole seconds since the last touch. 0 without `auto_priority`."""
    if priority is not None:
        return priority
    if not auto_priority:
        return 0
    return -min(max(now - touched_ts, 0) // 1000, MAX_PRIORITY)
