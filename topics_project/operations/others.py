"""Finds objects of others in this database: those in our schemas, and those with references to ours.

No command drops them silently.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from django.apps import apps
from django.db import connection

from store import objects

DOOR = "topics"  # the schema of the functions for applications
OURS = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (\w+)", re.MULTILINE)
# Tables, views, functions, sequences and types. Parts of others are left out, such as a partition, the sequence of a column or
# the type of a row: PostgreSQL drops them with the whole.
OBJECTS = """
SELECT DISTINCT nspname, name, is_relation,
       EXISTS (SELECT FROM pg_depend d WHERE d.classid = found.class AND d.objid = found.id AND deptype = 'e')
  FROM (SELECT 'pg_class'::regclass, oid, relnamespace, relname, relkind <> 'S' FROM pg_class
         WHERE relkind IN ('r', 'p', 'f', 'm', 'v', 'S')
         UNION ALL
        SELECT 'pg_proc'::regclass, oid, pronamespace, proname, false FROM pg_proc
         UNION ALL
        SELECT 'pg_type'::regclass, oid, typnamespace, typname, false FROM pg_type
       ) found (class, id, namespace, name, is_relation)
  JOIN pg_namespace n ON n.oid = namespace
 WHERE nspname = ANY (%(schemas)s)
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = found.class AND d.objid = found.id AND deptype IN ('a', 'i'))
 ORDER BY 1, 2
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


class Object(NamedTuple):
    """A table, view, function, type or sequence. `is_relation`: a table or a view. `is_extensions`: CREATE EXTENSION made it."""

    schema: str
    name: str
    is_relation: bool
    is_extensions: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def unknown(own: str, schemas: list[str]) -> list[Object]:
    """Returns the objects of these schemas that this version did not make. `own`: the schema of our tables."""
    known = {(own, name) for name in tables()} | known_objects(own)
    with connection.cursor() as cursor:
        cursor.execute(OBJECTS, {"schemas": schemas})
        found = [Object(*row) for row in cursor.fetchall()]
    return [each for each in found if (each.schema, each.name) not in known]


def known_objects(own: str) -> set[tuple[str, str]]:
    """Returns schema and name of each of our functions and views."""
    parts = (name.rpartition(".") for name in objects.known())
    return {(schema or own, bare) for schema, _, bare in parts}


def tables() -> set[str]:
    """Returns the names of our tables."""
    names = {*connection.introspection.django_table_names(include_views=False), "django_migrations", "store_object"}
    for app in apps.get_app_configs():
        for file in Path(app.path).glob("sql/tables/*.sql"):
            names |= set(OURS.findall(file.read_text()))
    return names


def foreign(ours: list[str]) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(FOREIGN, {"ours": ours})
        return {name for (name,) in cursor.fetchall()}
