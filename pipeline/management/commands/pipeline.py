"""`manage.py pipeline …`: runs the Spark jobs from a shell (docs/pipeline.md).

Exit codes: 0 if the job succeeded, 1 if the job failed, 2 if the job found something wrong, 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from base.errors import TopicsError
from base.refusal import Refusal
from pipeline.models import Job, Run
from pipeline.runs.running import perform
from pipeline.runs.schedules import run_due
from pipeline.runs.work import database_of_django
from pipeline.session import require_pyspark
from store.database import translating

WRONG = 2
INTERRUPTED = 128 + 2
OF_DJANGO = ("verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks", "job")


class Command(BaseCommand):
    help = "Archive, verify, restore, roll up, audit and compact topics on Spark."
    requires_system_checks: list[str] = []

    def get_version(self) -> str:
        return f"topics {settings.VERSION}"

    def add_arguments(self, parser: ArgumentParser) -> None:
        jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True)
        add_archive(jobs.add_parser(Job.ARCHIVE, help="write new records of topics to Parquet"))
        add_verify(jobs.add_parser(Job.VERIFY, help="compare an archive with its topic"))
        add_restore(jobs.add_parser(Job.RESTORE, help="append archived records to a topic"))
        add_rollup(
            jobs.add_parser(
                Job.ROLLUP, help="count records per minute, node and tag prefix, and measure routers' delays"
            )
        )
        add_audit(jobs.add_parser(Job.AUDIT, help="compare the sources and dests of routers"))
        add_latest(jobs.add_parser(Job.LATEST, help="write the last record of each tag to Parquet or to a topic"))

        jobs.add_parser("due", help="run the jobs of all due schedules, as a worker does")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["job"] == "due":
            run_due(database_of_django())
            return
        require_pyspark()
        given = {name: value for name, value in options.items() if name not in OF_DJANGO and value is not None}
        try:
            with translating():
                check_tables()
                run = perform(options["job"], given)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except TopicsError as error:
            raise Refusal(error.message) from error
        print(f"topics: {run.summary}", file=sys.stderr)
        if run.state == Run.State.WRONG:
            raise SystemExit(WRONG)


def check_tables() -> None:
    """Raises Refusal if the database has no tables yet."""
    with database_of_django().connect() as session:
        row = session.execute("SELECT to_regclass('pipeline_run')").fetchone()
    if row is None or row[0] is None:
        raise Refusal("the database is not set up: run `make run` or `manage.py migrate` first.")


def add_archive(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--topic",
        action="append",
        required=True,
        metavar="NAME",
        help="topic to archive. You can repeat --topic. orders.* is a prefix",
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="PATH",
        help="folder of the archive, or a URL of a file system that Hadoop supports",
    )
    parser.add_argument(
        "--trim",
        action="store_true",
        help="read the archive back, then delete its records from the topic",
    )
    parser.add_argument("--step", type=int, metavar="SEQS", help="number of seqs per step (default 1,000,000)")


def add_verify(parser: ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, metavar="NAME", help="topic to compare")
    parser.add_argument("--archive", required=True, metavar="PATH", help="folder or URL of the archive")


def add_restore(parser: ArgumentParser) -> None:
    parser.add_argument("--archive", required=True, metavar="PATH", help="folder or URL of the archive")
    parser.add_argument("--topic", required=True, metavar="NAME", help="topic to append to. A missing topic is created")
    parser.add_argument("--source", metavar="NAME", help="the topic's name in the archive (default: the same name)")
    parser.add_argument(
        "--epoch", type=int, metavar="ID", help="id of the topic, if the archive has several of the name"
    )
    parser.add_argument("--from-seq", type=int, metavar="SEQ", help="start after this seq (default 0)")
    parser.add_argument("--to-seq", type=int, metavar="SEQ", help="last seq to restore (default: all)")


def add_rollup(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--topic",
        action="append",
        metavar="NAME",
        help="topic to count. You can repeat --topic. orders.* is a prefix (default: all topics)",
    )


def add_audit(parser: ArgumentParser) -> None:
    parser.add_argument("--router", metavar="NAME", help="only this router (default: all routers)")


def add_latest(parser: ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, metavar="NAME", help="topic to read")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", metavar="PATH", help="write Parquet to this path, and replace the earlier result")
    where.add_argument(
        "--into", metavar="NAME", help="append to this topic the records of tags that changed since the last run"
    )
