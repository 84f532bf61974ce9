"""Runs a job: checks the options, keeps the row in the admin, and reports the result in one line."""

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
from pipeline.runs.trouble import spark_trouble
from pipeline.runs.work import JobOutcome, Work, database_of_django
from pipeline.session import require_pyspark
from store.database import translating

log = logging.getLogger(__name__)
# The run's number is drawn before its row is inserted. So the run holds its lock whenever the row says "running".
NUMBER = "SELECT nextval(pg_get_serial_sequence('pipeline_run', 'id'))"
# A run's own lock, held while its process runs. HOLD does not wait: another session takes the lock only for a killed run.
HOLD = "SELECT pg_advisory_lock(7202, %s)"
TRY = "SELECT pg_try_advisory_lock(7202, %s)"
RELEASE = "SELECT pg_advisory_unlock(7202, %s)"
UNKEPT = re.compile("[\0\ud800-\udfff]")  # characters that PostgreSQL cannot store in text


class JobKind(NamedTuple):
    """A job, and the type of its options."""

    options: type[msgspec.Struct]
    do: Callable[[Work, Any], JobOutcome]


KINDS = {
    Job.ARCHIVE: JobKind(Archive, archive),
    Job.VERIFY: JobKind(Verify, verify),
    Job.RESTORE: JobKind(Restore, restore),
    Job.ROLLUP: JobKind(Rollup, rollup),
    Job.AUDIT: JobKind(Audit, audit),
    Job.LATEST: JobKind(Latest, latest),
}


def check(job: str, options: dict[str, Any]) -> msgspec.Struct:
    """Returns the checked options of a job. Raises InvalidRequest for unknown options and invalid values."""
    try:
        checked = msgspec.convert(options, KINDS[Job(job)].options)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{job}: {error}") from error
    for name, value in options.items():
        if any(UNKEPT.search(str(word)) for word in (value if isinstance(value, list) else [value])):
            raise InvalidRequest(f"{job}: {name} holds a NUL or half a surrogate pair, which PostgreSQL does not keep")
    return checked


def perform(job: str, options: dict[str, Any], schedule: Schedule | None = None) -> Run:
    """Runs a job, optionally for a schedule, and returns its row.

    Raises TopicsError or Refusal if the job fails. The row then has the reason.
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
    """Marks runs of killed processes as failed. The lock of such a run is free."""
    for run in Run.objects.filter(state=Run.State.RUNNING):
        key = [run.pk % 2**31]
        row = session.execute(TRY, key).fetchone()
        if row is not None and row[0]:
            end(run, "failed", "killed. The next run of this job continues after its last step", None)
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
        log.debug("%s failed", run, exc_info=True)
        if known is not None:
            raise known from error
        raise
    finally:
        work.progress.clear()
    end(run, "wrong" if outcome.wrong else "done", f"{outcome.summary} ({took(work)})", outcome.report)
    return run


def took(work: Work) -> str:
    """Returns the duration of a run, the part of Spark's start, and the rate without this part.

    The rate of a restore counts the appended records. All other rates count the records that the run read.
    """
    seconds, run = work.seconds, work.run
    records = run.written if run.job == Job.RESTORE else run.read
    start = f", of which Spark's start took {work.spark_seconds:.1f} s" if work.spark_seconds else ""
    return f"in {seconds:.1f} s{start}; {amount(round(records / max(seconds - work.spark_seconds, 0.001)))} records/s"


def end(run: Run, state: str, summary: str, report: Any) -> None:
    run.state, run.summary, run.report, run.finished_ts = state, summary, report, now_ms()
    run.save(update_fields=["state", "summary", "report", "finished_ts", "read", "written"])
    log.info("%s: read %d, wrote %d records: %s", run, run.read, run.written, summary)
