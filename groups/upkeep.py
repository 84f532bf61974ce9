"""Upkeep of groups that no stream looks after: ends the sessions of killed members, and forgets groups that nobody uses.

The age of a group counts in hours in which a worker process found it idle. So neither a stopped server nor a restore from an old
backup makes a group older.
"""

from __future__ import annotations

from django.conf import settings

from groups.groups import AUDITED, DELETE, LOCK, audited
from groups.sessions import ASSIGN
from store.script import Script, Statement, atomically
from topics import audit

HOUR_MS = 3_600_000
# These tables are small. MATERIALIZED reads them page by page. In the order of an index, each row would cost a page.
ALL_TIMED_OUT = """
WITH ended AS MATERIALIZED (
    SELECT group_id FROM groups_member WHERE seen_ts + session_ms < extract(epoch FROM clock_timestamp()) * 1000)
SELECT DISTINCT group_id FROM ended
"""
# Reads the shares of the groups by the primary key, once an hour for each group. SKIP LOCKED leaves a group that another
# transaction holds to the next round, because a wait could deadlock with the delete of a topic, which locks all of its groups.
COUNT_HOURS = f"""
UPDATE groups_group g
   SET counted_ts = %(now)s,
       idle_hours = CASE WHEN EXISTS (SELECT FROM groups_alive m WHERE m.group_id = g.id)
                           OR EXISTS (SELECT FROM groups_share s WHERE s.group_id = g.id AND s.updated_ts >= g.counted_ts)
                         THEN 0 ELSE idle_hours + 1 END
 WHERE id = ANY (ARRAY(
       SELECT id FROM groups_group WHERE abs(%(now)s - counted_ts) >= {HOUR_MS} FOR NO KEY UPDATE SKIP LOCKED))
"""
IDLE = """
WITH idle AS MATERIALIZED (SELECT id FROM groups_group WHERE idle_hours >= %s) SELECT id FROM idle ORDER BY id LIMIT 100
"""
# The caller holds the lock of the group, so no member joins meanwhile.
STILL_IDLE = f"""
SELECT {AUDITED} FROM groups_group g JOIN topics_topic t ON t.id = g.topic_id
 WHERE g.id = %s AND g.idle_hours >= %s AND NOT EXISTS (SELECT FROM groups_member m WHERE m.group_id = g.id)
"""


def end_sessions() -> Script[None]:
    """Ends the sessions that timed out. A group with a stream does this itself, and earlier."""
    for (group_id,) in (yield Statement(ALL_TIMED_OUT, ())):
        yield Statement(ASSIGN, (group_id,))


def forget_idle(now: int) -> Script[int]:
    """Deletes the groups that were idle for TOPICS_GROUP_DAYS. Returns their number."""
    yield Statement(COUNT_HOURS, {"now": now})
    hours, forgotten = settings.TOPICS_GROUP_DAYS * 24, 0
    if hours:
        for (id,) in (yield Statement(IDLE, (hours,))):
            forgotten += yield from atomically(forget_locked(id, hours), id)
    return forgotten


def forget_locked(id: int, hours: int) -> Script[bool]:
    yield Statement(LOCK, (id,))
    found = yield Statement(STILL_IDLE, (id, hours))
    if found:
        yield Statement(DELETE, (id,))
        yield from audit.note("delete", "group", **audited(*found[0]))
    return bool(found)
