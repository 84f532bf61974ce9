"""`topics uninstall`: removes everything from the application's database, in one transaction (docs/sql.md).

The tables need a schema of their own. In `public`, nobody can tell our objects from those of others.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection, transaction

from base.refusal import Refusal
from base.units import counted
from store import serving

DOOR = "topics"  # the schema of the functions for applications
OURS = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (\w+)", re.MULTILINE)
TABLES = """
SELECT relname FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'f', 'm') AND NOT relispartition
"""
# Objects of other schemas that a DROP … CASCADE could take with it: columns of tables and views, functions, and foreign keys.
FOREIGN = """
SELECT attrelid::regclass || '.' || attname
  FROM pg_attribute JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
 WHERE nspname !~ '^pg_' AND nspname <> ALL (%(ours)s) AND attnum > 0 AND NOT attisdropped
 UNION ALL
SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
 WHERE nspname !~ '^pg_' AND nspname <> ALL (%(ours)s)
 UNION ALL
SELECT conrelid::regclass || '.' || conname FROM pg_constraint JOIN pg_namespace n ON n.oid = connamespace
 WHERE nspname !~ '^pg_' AND nspname <> ALL (%(ours)s) AND conrelid <> 0
"""


def schemas() -> list[str]:
    """Returns the schemas that topics has in this database. Raises Refusal unless the tables have a schema of their own."""
    (schema,) = one("SELECT current_schema()")
    if schema in (None, "public"):
        raise Refusal(
            "the tables of topics are in the schema public, among the objects of others: drop the database, or restore the "
            "topics that you want to keep into another one."
        )
    return [schema] if schema == DOOR else [schema, DOOR]


def held() -> str:
    """Returns the numbers of topics and records, for the question before an uninstall. Raises Refusal."""
    names = schemas()
    if one("SELECT to_regclass('topic_heads')") == (None,):
        raise Refusal(f"the schema {names[0]} has no topics.")
    known = {*connection.introspection.django_table_names(include_views=False), "django_migrations", "store_object"}
    for app in apps.get_app_configs():
        for file in Path(app.path).glob("sql/tables/*.sql"):
            known |= set(OURS.findall(file.read_text()))
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        strange = sorted({name for (name,) in cursor.fetchall()} - known)
    if strange:
        raise Refusal(f"the schema {names[0]} has tables of somebody else ({', '.join(strange)}): move them first.")
    topics, records = one("SELECT count(*), coalesce(sum(count), 0)::bigint FROM topic_heads")
    (database,) = one("SELECT current_database()")
    return f"{counted(topics, 'topic')} with {counted(records, 'record')} in the schema {names[0]} of the database {database}"


def uninstall() -> str:
    """Drops the schemas in one transaction. Returns a report.

    Raises Refusal, and changes nothing, if a server runs, or if objects in other schemas use ours.
    """
    names = schemas()
    with serving.alone() as alone:
        if not alone:
            raise Refusal("a web process serves this database: stop topics first.")
        with transaction.atomic(), connection.cursor() as cursor:
            before = foreign(names)
            for name in names:
                cursor.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')
            if lost := sorted(before - foreign(names)):
                raise Refusal(f"{lost[0]} uses topics: drop it first.")
    dropped = f"dropped the {'schema' if len(names) == 1 else 'schemas'} {' and '.join(names)}."
    return f"{dropped} The roles topics_reader, topics_writer and topics_analyst belong to the whole server, and stay."


def foreign(ours: list[str]) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(FOREIGN, {"ours": ours})
        return {name for (name,) in cursor.fetchall()}


def one(statement: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row: tuple[Any, ...] = cursor.fetchone()
    return row
