"""When each topic was last read. Reads note it in memory; about once a second it is written down, never in a read's
way and never waiting for an append (docs/wire.md, `last_read_ts` and `effective_priority`)."""

from __future__ import annotations

from django.db import connection

MAX_PRIORITY = 1000
MOST = 100_000  # topics noted between two flushes

# A head that an append holds right now is skipped: it is tried again at the next flush, and an append never waits
# for longer than this statement's own commit, which does not wait for the disk.
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
    """A topic was read."""
    _noted[topic_id] = now
    if len(_noted) > MOST:
        _noted.clear()


def last_read(topic_id: int, written_ts: int) -> int:
    """The last read that this process knows of, which has read `written_ts` from the head."""
    return max(_noted.get(topic_id, 0), written_ts)


def flush() -> int:
    """Write down what was noted; returns for how many topics that is done."""
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
    """The priority that was set, else minus the whole seconds since the last touch."""
    if priority is not None:
        return priority
    if not auto_priority:
        return 0
    return -min(max(now - touched_ts, 0) // 1000, MAX_PRIORITY)
