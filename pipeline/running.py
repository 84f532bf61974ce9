"""Run a job: its options are checked, its row in the admin kept, and how it ended told in one line."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import psycopg

from base.clock import now_ms
from base.errors import InvalidRequest
from base.units import amount
from pipeline.jobs.archive import Archive, archive
from pipeline.jobs.audit import Audit, audit
from pipeline.jobs.latest import Latest, latest
from pipeline.jobs.restore import Restore, restore
from pipeline.jobs.rollup import Rollup, rollup
from pipeline.jobs.verify import Verify, verify
from pipeline.models import Job, Run, Schedule
from pipeline.session import require_pyspark
from pipeline.work import Outcome, Work, database_of_django, spark_trouble
from store.database import translating

log = logging.getLogger(__name__)
# The run's number is known before its row exists, so the run is locked whenever the row says that it is running.
NUMBER = "SELECT nextval(pg_get_serial_sequence('pipeline_run', 'id'))"
# A run's own lock, as long as its process lives. The lock is free: only a run that is buried was ever taken by another one.
HOLD = "SELECT pg_advisory_lock(7202, %s)"
TRY = "SELECT pg_try_advisory_lock(7202, %s)"
RELEASE = "SELECT pg_advisory_unlock(7202, %s)"
UNKEPT = re.compile("[\0\ud800-\udfff]")  # in no text of PostgreSQL, and so in no row of a run


class Kind(NamedTuple):
    """A job, and the shape of its options."""

    options: type[msgspec.Struct]
    do: Callable[[Work, Any], Outcome]


KINDS = {
    Job.ARCHIVE: Kind(Archive, archive),
    Job.VERIFY: Kind(Verify, verify),
    Job.RESTORE: Kind(Restore, restore),
    Job.ROLLUP: Kind(Rollup, rollup),
    Job.AUDIT: Kind(Audit, audit),
    Job.LATEST: Kind(Latest, latest),
}


def check(job: str, options: dict[str, Any]) -> msgspec.Struct:
    """The options of a job. Raises InvalidRequest for what it does not know, or cannot be."""
    try:
        checked = msgspec.convert(options, KINDS[Job(job)].options)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{job}: {error}") from error
    for name, value in options.items():
        if any(UNKEPT.search(str(word)) for word in (value if isinstance(value, list) else [value])):
            raise InvalidRequest(f"{job}: {name} holds a NUL or half a surrogate pair, which PostgreSQL does not keep")
    return checked


def perform(job: str, options: dict[str, Any], schedule: Schedule | None = None) -> Run:
    """Do a job, for a schedule or for whoever asks, and return its row.

    Raises TopicsError or Refusal when it could not be done: the row says why.
    """
    checked = check(job, options)
    with database_of_django().connect() as session:
        bury(session)
        row = session.execute(NUMBER).fetchone()
        assert row is not None
        number = row[0]
        session.execute(HOLD, [number % 2**31])
        run = Run.objects.create(pk=number, job=job, options=options, started_ts=now_ms())
        return perform_held(Work(run, session), checked, schedule)


def bury(session: psycopg.Connection[Any]) -> None:
    """Write down of runs whose process was killed that they failed: nobody holds their lock any more."""
    for run in Run.objects.filter(state=Run.State.RUNNING):
        key = [run.pk % 2**31]
        row = session.execute(TRY, key).fetchone()
        if row is not None and row[0]:
            end(run, "failed", "it was killed; the same job goes on from there", None)
            session.execute(RELEASE, key)


def perform_held(work: Work, checked: msgspec.Struct, schedule: Schedule | None) -> Run:
    run = work.run
    if schedule is not None:
        Schedule.objects.filter(pk=schedule.pk).update(last_run=run)
    try:
        require_pyspark()
        with translating():
            outcome = KINDS[Job(run.job)].do(work, checked)
    except BaseException as error:
        known = spark_trouble(error) if isinstance(error, Exception) else None
        told = known or error
        end(run, "failed", str(told) or type(told).__name__, None)
        if known is not None:
            raise known from error
        raise
    finally:
        work.progress.clear()
    seconds = work.progress.seconds
    rate = f"in {seconds:.1f} s, {amount(round(run.read / seconds))}/s"
    end(run, "wrong" if outcome.wrong else "done", f"{outcome.summary} ({rate})", outcome.report)
    return run


def end(run: Run, state: str, summary: str, report: Any) -> None:
    run.state, run.summary, run.report, run.finished_ts = state, summary, report, now_ms()
    run.save(update_fields=["state", "summary", "report", "finished_ts", "read", "written"])
    log.info("%s: read %d, wrote %d records: %s", run, run.read, run.written, summary)
