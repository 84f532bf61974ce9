"""`manage.py pipeline …`: runs the Spark jobs from a shell (docs/pipeline.md).

Exit codes: 0 if the job succeeded, 1 if the job failed, 2 if the job found something wrong, 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import ProgrammingError

from base.errors import TopicsError
from base.refusal import Refusal
from pipeline.models import Job, Run
from pipeline.running import perform
from pipeline.schedules import run_due
from pipeline.session import require_pyspark
from pipeline.work import database_of_django
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
            jobs.add_parser(Job.ROLLUP, help="count what came by minute, node and tag prefix, and routers' delays")
        )
        add_audit(jobs.add_parser(Job.AUDIT, help="compare the sources and dests of routers"))
        add_latest(jobs.add_parser(Job.LATEST, help="the last record of each tag"))

        jobs.add_parser("due", help="run what schedules have due, as a worker does")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["job"] == "due":
            run_due(database_of_django())
            return
        require_pyspark()
        given = {name: value for name, value in options.items() if name not in OF_DJANGO and value is not None}
        try:
            with translating():
                run = perform(options["job"], given)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except TopicsError as error:
            raise Refusal(error.message) from error
        except ProgrammingError as error:
            raise Refusal(
                f"the database is not set up, run `make run` or `manage.py migrate` first: {error}"
            ) from error
        print(f"topics: {run.summary}", file=sys.stderr)
        if run.state == Run.State.WRONG:
            raise SystemExit(WRONG)


def add_archive(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--topic",
        action="append",
        required=True,
        metavar="NAME",
        help="may be given again; orders.* is all that begin so",
    )
    parser.add_argument(
        "--out", required=True, metavar="PATH", help="a folder, or a URL of a file system that Hadoop knows"
    )
    parser.add_argument("--trim", action="store_true", help="then delete from the topic what is archived")
    parser.add_argument("--step", type=int, metavar="SEQS", help="of one step (1,000,000)")


def add_verify(parser: ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, metavar="NAME")
    parser.add_argument("--archive", required=True, metavar="PATH")


def add_restore(parser: ArgumentParser) -> None:
    parser.add_argument("--archive", required=True, metavar="PATH")
    parser.add_argument("--topic", required=True, metavar="NAME", help="where to; created when it is absent")
    parser.add_argument("--source", metavar="NAME", help="the topic's name in the archive, if another")
    parser.add_argument("--epoch", type=int, metavar="ID", help="which of several topics that had the name")
    parser.add_argument("--from-seq", type=int, metavar="SEQ", help="begin after this seq (0)")
    parser.add_argument("--to-seq", type=int, metavar="SEQ", help="end with this seq")


def add_rollup(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--topic",
        action="append",
        metavar="NAME",
        help="may be given again; orders.* is all that begin so (all topics)",
    )


def add_audit(parser: ArgumentParser) -> None:
    parser.add_argument("--router", metavar="NAME", help="this one alone (all routers)")


def add_latest(parser: ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, metavar="NAME")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", metavar="PATH", help="as Parquet, in place of what was there")
    where.add_argument("--into", metavar="NAME", help="append to this topic the tags that changed since the last run")
