"""Databases of their own beside the tests', what `manage.py migrate` makes of them, and what is in them, object by object."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
from django.conf import settings
from psycopg import sql

from embedded import programs
from tests.instances import ROOT, until
from tests.preloaded import run

# Each query selects names and definitions of the schema `public`, and the functions of the schema `topics`. Columns say NOT NULL: the names of these constraints differ
# after a dump.
OBJECTS = {
    "table": """
        SELECT relname, concat_ws(' ', relkind, relpersistence, reloptions::text, pg_get_expr(relpartbound, c.oid))
          FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'S')""",
    "column": """
        SELECT relname || '.' || attname,
               concat_ws(' ', row_number() OVER (PARTITION BY attrelid ORDER BY attnum), format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
                         nullif(attidentity, ''), pg_get_expr(adbin, adrelid),
                         (SELECT collname FROM pg_collation WHERE oid = attcollation))
          FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
          LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') AND attnum > 0 AND NOT attisdropped""",
    "index": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "constraint": """
        SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
          FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",
    "trigger": "SELECT tgrelid::regclass || '.' || tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "view": """
        SELECT CASE WHEN schemaname = 'topics' THEN 'topics.' ELSE '' END || viewname, definition
          FROM pg_views WHERE schemaname IN ('public', 'topics')""",
    "function": """
        SELECT CASE WHEN pronamespace <> 'public'::regnamespace THEN 'topics.' ELSE '' END
                   || regexp_replace(oid::regprocedure::text, '^topics[.]', ''), pg_get_functiondef(oid)
          FROM pg_proc WHERE pronamespace IN ('public'::regnamespace, to_regnamespace('topics'))""",
    "grant": """
        SELECT relname || ' to ' || coalesce(nullif(grantee, 0)::regrole::text, 'everybody'), string_agg(privilege_type, ', ' ORDER BY privilege_type)
          FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
         WHERE relnamespace = 'public'::regnamespace AND grantee <> relowner
         GROUP BY relname, grantee
        UNION ALL
        SELECT pg_proc.oid::regprocedure || ' to ' || coalesce(nullif(grantee, 0)::regrole::text, 'everybody'),
               string_agg(privilege_type, ', ' ORDER BY privilege_type)
          FROM pg_proc CROSS JOIN LATERAL aclexplode(proacl)
         WHERE pronamespace IN ('public'::regnamespace, to_regnamespace('topics'))
         GROUP BY pg_proc.oid, grantee""",
}


@contextlib.contextmanager
def database() -> Iterator[str]:
    """An empty database on the tests' server, by its URL; dropped in the end."""
    name = f"migrated_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(settings.DATABASE_URL, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        # Our role is called topics. Otherwise what a test creates would be in the schema of its name (topics/schema.py).
        server.execute(sql.SQL("ALTER DATABASE {} SET search_path = public").format(sql.Identifier(name)))
    try:
        yield urlsplit(settings.DATABASE_URL)._replace(path=f"/{name}").geturl()
    finally:
        until(lambda: drop(name), f"{name} to be nobody's")


def drop(name: str) -> bool:
    """False: somebody is still in it, for instance autovacuum, which PostgreSQL waits for 5 s only, and which we may not end."""
    try:
        with psycopg.connect(settings.DATABASE_URL, autocommit=True) as server:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
    except (psycopg.OperationalError, psycopg.errors.InsufficientPrivilege):
        return False
    return True


def environment(url: str) -> dict[str, str]:
    """The environment of a process that works on a database."""
    return os.environ | {"DATABASE_URL": url, "REDIS_URL": settings.REDIS_URL, "SECRET_KEY": settings.SECRET_KEY}


def migrate(url: str, *target: str) -> None:
    """Runs `manage.py migrate` in a process of its own, as an operator does."""
    command = [sys.executable, "manage.py", "migrate", "--verbosity=0", *target]
    done = run(command, environment(url), ROOT)
    assert done.returncode == 0, done.stderr


def dump(url: str) -> str:
    """A database as SQL that makes it again, also on an older PostgreSQL. It belongs to whoever runs the SQL."""
    program = programs.postgres().path.with_name("pg_dump")
    command = [program, "--no-owner", "--inserts", url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # A command of psql, a setting of PostgreSQL 17, and comments that name versions.
    return "".join(
        line for line in text.splitlines(True) if not line.startswith(("\\", "SET transaction_timeout", "-- Dumped"))
    )


def schema(text: str) -> str:
    """A dump without comments and bodies of functions: an upgrade replaces these, and needs only their names and arguments."""
    text = re.sub(r"\s+AS (\$\w*\$).*?\1;", " AS 'BEGIN END';", text, flags=re.DOTALL)
    return "".join(line for line in text.splitlines(True) if line.strip() and not line.startswith("--"))


def objects(url: str) -> dict[str, str]:
    """Every object of a database, by kind and name."""
    with psycopg.connect(url) as connection:
        return read_objects(connection)


def read_objects(connection: psycopg.Connection[Any]) -> dict[str, str]:
    return {
        f"{kind} {name}": definition
        for kind, query in OBJECTS.items()
        for name, definition in connection.execute(query).fetchall()
    }
