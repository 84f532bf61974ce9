"""Jobs that run at an interval. One process at a time runs the jobs that are due."""

from __future__ import annotations

import logging

from base.clock import now_ms
from base.errors import TopicsError
from base.refusal import Refusal
from pipeline.database import Database
from pipeline.models import Schedule
from pipeline.runs.running import perform
from store.database import prepared

log = logging.getLogger(__name__)

# A `next_ts` more than one interval ahead is wrong: a fast clock set the time, or the interval was shortened since.
IS_DUE = "enabled AND next_ts NOT BETWEEN %(now)s::bigint + 1 AND %(now)s::bigint + greatest(every_minutes, 1) * 60000::bigint"
DUE = f"SELECT EXISTS (SELECT FROM pipeline_schedule WHERE {IS_DUE})"
# If two processes claim at once, only one gets the row. A schedule that was due several times runs once.
CLAIM = f"""
UPDATE pipeline_schedule SET next_ts = %(now)s + greatest(every_minutes, 1) * 60000::bigint
 WHERE id = (SELECT id FROM pipeline_schedule WHERE {IS_DUE} ORDER BY next_ts LIMIT 1
                FOR UPDATE SKIP LOCKED)
RETURNING id
"""
# A Spark takes a core and 1 GB, so scheduled jobs run one after another. A separate session holds this lock.
TAKE_TURN = "SELECT pg_try_advisory_lock(7201)"


def due(now: int) -> bool:
    """Returns whether any schedule is due."""
    return bool(prepared(DUE, {"now": now})[0][0])


def run_due(where: Database) -> int:
    """Runs the due jobs one after another, unless another process runs them. Returns how many jobs ran.

    The row of a failed job has the reason. The schedule runs the job again at the next interval.
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
