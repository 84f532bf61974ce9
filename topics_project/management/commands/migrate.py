"""`manage.py migrate`: Django's migrations, which change tables, and then the SQL objects (store/objects.py).

A change of a table waits until no transaction uses the table, and all requests for the table wait behind it. An open
transaction can last, such as that of a backup. So a wait is short, and requests pass before the next try.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.models.signals import pre_migrate
from psycopg.errors import LockNotAvailable

from base.outage import Pace
from store import objects
from topics import schema

LOCK_MS = 2_000  # less than TOPICS_LOCK_TIMEOUT_MS, so that the requests behind do not fail
PAUSE_SECONDS = 1.0  # between two tries


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        pre_migrate.connect(drop_before_a_way_back)
        schema.make(connections[options["database"]])
        pace = Pace()
        with short_waits(options["database"]):
            while True:
                try:
                    self.try_to(*args, **options)
                    return
                except OperationalError as error:
                    if not isinstance(error.__cause__, LockNotAvailable):
                        raise
                if pace.is_due():
                    self.stderr.write("a transaction uses a table that is to change: trying again until it ends")
                time.sleep(PAUSE_SECONDS)

    def try_to(self, *args: Any, **options: Any) -> None:
        """Continues after the last migration that was applied."""
        using = options["database"]
        if not (options["plan"] or options["check_unapplied"]):
            objects.mark(using)
        super().handle(*args, **options)  # exits with `--check` if a migration is missing
        if options["plan"]:
            return
        if options["check_unapplied"]:
            sys.exit(bool(objects.differing(using)))
        # Migrations that a target left out made no tables, or other ones. The version that belongs to them applies its own texts.
        executor = MigrationExecutor(connections[using])
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return
        applied = objects.apply(using)
        schema.enter(connections[using])
        if options["verbosity"] >= 1:
            self.stdout.write(f"SQL objects: {len(applied)} applied." if applied else "SQL objects: all up to date.")


@contextmanager
def short_waits(using: str) -> Iterator[None]:
    """Limits the waits for locks. Other commands have no limit (store/session.py)."""
    set_lock_timeout(using, LOCK_MS)
    try:
        yield
    finally:
        if connections[using].connection is not None:
            set_lock_timeout(using, 0)


def set_lock_timeout(using: str, ms: int) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute(f"SET lock_timeout = {ms}")


def drop_before_a_way_back(using: str, plan: list[tuple[Any, bool]], **_: Any) -> None:
    """Drops the objects before a migration goes backwards, because views hold the columns of their tables."""
    if any(backwards for _, backwards in plan):
        objects.drop_all(using)
