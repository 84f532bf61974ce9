"""`topics uninstall`: removes everything from the application's database, in one transaction (docs/sql.md).

The tables need a schema of their own. In `public`, nobody can tell our objects from those of others.
"""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction

from base.refusal import Refusal
from base.units import counted, first
from store import serving
from topics_project.operations.others import DOOR, foreign, unknown

EXAMPLES = 5  # objects of others that a refusal names. An extension can have hundreds


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
    if strange := unknown(names[0], names):
        raise Refusal(
            f"the schemas of topics have objects of somebody else ({first(strange, EXAMPLES)}): move them first."
        )
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
    return f"{dropped} The roles topics_… belong to the whole server, and stay."


def one(statement: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row: tuple[Any, ...] = cursor.fetchone()
    return row
