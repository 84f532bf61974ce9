"""`manage.py migrate`: Django's migrations, which change tables, and then the SQL objects (store/objects.py)."""

import sys
from typing import Any

from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.models.signals import pre_migrate

from store import objects
from topics import schema


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        using = options["database"]
        pre_migrate.connect(drop_before_a_way_back)
        schema.make(connections[using])
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


def drop_before_a_way_back(using: str, plan: list[tuple[Any, bool]], **_: Any) -> None:
    """Drops the objects before a migration goes backwards, because views hold the columns of their tables."""
    if any(backwards for _, backwards in plan):
        objects.drop_all(using)
