"""Shared parts of all jobs: Spark, the database, a progress bar, a row in the admin, and a log of read and written records."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from django.db import connection
from psycopg.conninfo import make_conninfo

from base.clock import now_ms
from base.errors import NotReady, TopicsError
from pipeline.database import Database
from pipeline.extent import Extent, extent, extents
from pipeline.models import Run
from pipeline.turns import Turn, turn
from shell.progress import Progress
from store.database import translating
from store.script import run as run_script
from topics.cache import topic_called
from topics.hooks import hooks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class Outcome(NamedTuple):
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

    @cached_property
    def spark(self) -> SparkSession:
        from pipeline.session import session

        return session()

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
        with translating(), self.database.connect() as session:
            return extent(session, name)

    def topics(self, patterns: list[str]) -> list[Extent]:
        """Returns the topics with these names. A name that ends in * is a prefix. Raises TopicNotFound."""
        found: dict[str, Extent] = {}
        for pattern in patterns:
            if pattern.endswith("*"):
                with translating(), self.database.connect() as session:
                    found |= {each.name: self.topic(each.name) for each in extents(session, pattern[:-1])}
            else:
                found[pattern] = self.topic(pattern)
        return list(found.values())


def database_of_django() -> Database:
    """Returns the database of Django's connection."""
    options = connection.get_connection_params()
    known = ("dbname", "user", "password", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey")
    return Database(make_conninfo(**{name: options[name] for name in known if options.get(name)}))


def spark_trouble(error: Exception) -> TopicsError | None:
    """Returns the line of a Spark error that has the cause. Returns None for other exceptions."""
    if find_spec("pyspark") is None:
        return None
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not isinstance(error, Py4JJavaError | PySparkException):
        return None
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [
        line.removeprefix(": ") for line in lines if line and not line.startswith("An error occurred while calling")
    ]
    told = [line.partition("ERROR: ")[2] for line in lines if "ERROR: " in line]  # errors of PostgreSQL
    raised = [line for line in lines if line.startswith(("base.errors.", "psycopg.", "pipeline."))]
    return NotReady((told or raised or lines or ["Spark failed"])[0])
