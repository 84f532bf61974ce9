"""Shared parts of all jobs: Spark, the database, a progress bar, a row in the admin, and a log of read and written records."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from django.conf import settings
from django.db import connection
from psycopg.conninfo import make_conninfo

from base.clock import now_ms
from pipeline.archive.files import Files, LocalFiles, is_local
from pipeline.database import Database
from pipeline.models import Run
from pipeline.read.extent import Extent, derived, extent, extents
from pipeline.runs.turns import Turn, turn
from shell.progress import Progress
from store.script import run as run_script
from topics.cache import topic_called
from topics.hooks import hooks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class JobOutcome(NamedTuple):
    """The result of a job: a sentence, a report, and whether the job found something wrong."""

    summary: str
    report: Any = None
    wrong: bool = False


class Work:
    """One run of a job, with the PostgreSQL session that holds its locks."""

    def __init__(self, run: Run, session: psycopg.Connection[Any]) -> None:
        self.run, self.session = run, session
        self.progress = Progress()
        self.started = time.monotonic()
        self.spark_seconds = 0.0  # the start of Spark, which rates leave out

    @cached_property
    def spark(self) -> SparkSession:
        from pipeline.session import Setup, session

        setup = Setup(settings.SPARK_MASTER, settings.TOPICS_SPARK_MEMORY, settings.TOPICS_JDBC_DRIVER)
        started = time.monotonic()
        # Spark's own log would print each error in 80 lines.
        level = "WARN" if log.isEnabledFor(logging.DEBUG) else "FATAL"
        made = session(setup, spark__log__level=level)
        self.spark_seconds = time.monotonic() - started
        return made

    @property
    def seconds(self) -> float:
        """The time since the start of the run."""
        return time.monotonic() - self.started

    @property
    def parallelism(self) -> int:
        """The number of Spark tasks that run at once."""
        from pipeline.spark.classic import parallelism

        return parallelism(self.spark)

    def files(self, root: str) -> Files:
        """Returns the folder of a path or URL. Starts Spark only if the folder is not local. Raises Refusal."""
        if is_local(root):
            return LocalFiles(root)
        from pipeline.spark.classic import HadoopFiles

        return HadoopFiles(self.spark, root)

    @cached_property
    def database(self) -> Database:
        return database_of_django()

    def turn(self, what: str, shared: bool = False) -> AbstractContextManager[Turn]:
        """Holds the lock on `what`, alone or shared. Raises Refusal with the name of the run that holds the lock."""
        return turn(self.session, what, shared)

    def begin(self, records: int) -> None:
        """Starts the progress bar with the number of records to process."""
        self.progress.clear()
        self.progress = Progress(max(records, 1))

    def did(self, what: str, records: int, written: int = 0) -> None:
        """Adds read and written records to the run's counts. `what` goes to the log."""
        self.run.read += records
        self.run.written += written
        Run.objects.filter(pk=self.run.pk).update(read=self.run.read, written=self.run.written)
        self.progress.clear()
        log.info("%s: %s", self.run, what)
        self.progress.tick(self.run.read, self.run.read)

    def topic(self, name: str) -> Extent:
        """Returns a topic as it is now, with all acknowledged records of its upstream topics.

        Raises TopicNotFound or NotReady.
        """
        topic = run_script(topic_called(name))
        if topic.derived:
            run_script(hooks.value.before_read(topic, now_ms()))
        return extent(self.session, name)

    def topics(self, patterns: list[str]) -> list[Extent]:
        """Returns the topics with these names, as `topic` does. A name that ends in * is a prefix. Raises TopicNotFound.

        One statement reads all topics of a prefix. Only those that routers forward into need statements of their own.
        """
        found: dict[str, Extent] = {}
        for pattern in patterns:
            if pattern.endswith("*"):
                found |= {each.name: each for each in extents(self.session, pattern[:-1])}
            else:
                found[pattern] = extent(self.session, pattern)
        for name in derived(self.session, found.values()):
            found[name] = self.topic(name)
        return list(found.values())


def database_of_django() -> Database:
    """Returns the database of Django's connection."""
    options = connection.get_connection_params()
    known = ("dbname", "user", "password", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey")
    return Database(make_conninfo(**{name: options[name] for name in known if options.get(name)}))
