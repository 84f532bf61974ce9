"""Jobs that run every so many minutes: which are due, and the one process at a time that runs them."""

from __future__ import annotations

import logging

from base.clock import now_ms
from base.errors import TopicsError
from base.refusal import Refusal
from pipeline.database import Database
from pipeline.models import Schedule
from pipeline.running import perform
from store.database import prepared

log = logging.getLogger(__name__)

# A time further ahead than one round was written by a clock that was ahead, or before the rounds were made shorter.
IS_DUE = "enabled AND next_ts NOT BETWEEN %(now)s::bigint + 1 AND %(now)s::bigint + greatest(every_minutes, 1) * 60000::bigint"
DUE = f"SELECT EXISTS (SELECT FROM pipeline_schedule WHERE {IS_DUE})"
# Of two processes one gets the row, whatever else keeps them apart. What was due several times runs once.
CLAIM = f"""
UPDATE pipeline_schedule SET next_ts = %(now)s + greatest(every_minutes, 1) * 60000::bigint
 WHERE id = (SELECT id FROM pipeline_schedule WHERE {IS_DUE} ORDER BY next_ts LIMIT 1
                FOR UPDATE SKIP LOCKED)
RETURNING id
"""
# A Spark takes a core and a GB: jobs of schedules take turns. Held in a session that does nothing else.
TAKE_TURN = "SELECT pg_try_advisory_lock(7201)"


def due(now: int) -> bool:
    """Whether some schedule's time has come."""
    return bool(prepared(DUE, {"now": now})[0][0])


def run_due(where: Database) -> int:
    """Run what is due, one after another, unless another process is at it. Returns how many jobs ran.

    A job that fails says so in its row, and its schedule comes again in its time.
    """
    with where.connect() as session:
        row = session.execute(TAKE_TURN).fetchone()
        if row is None or not row[0]:
            return 0
        count = 0
        while claimed := prepared(CLAIM, {"now": now_ms()}):
            schedule = Schedule.objects.get(pk=claimed[0][0])
            try:
                perform(schedule.job, schedule.options, schedule)
            except (TopicsError, Refusal) as error:
                log.error("schedule %s failed: %s", schedule, error)
            count += 1
        return count
