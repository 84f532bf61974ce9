"""The SQL objects of the apps: functions, views, and rights of roles. `sql/` of an app has the current text of each in a file.

A file is named after its object. `topics.read.sql` has an object of the schema `topics`, and names without a schema belong to the
schema of our tables, which is `public` or another one. A function that other logins call with settings of their own says
`SET search_path FROM CURRENT SET standard_conforming_strings = on`: while objects are applied, the path has only the schema of
our tables, and each session reads the text of a function by its own settings.

Objects have no history. `manage.py migrate` applies them after the migrations: each object that the database lacks or has with
another text, all in one transaction. An older version that is started again applies its own texts in the same way.

Tables change by migrations. `sql/tables/` shows them as they are now (tests/migrations/test_schema.py), and nothing runs it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from django.apps import apps
from django.db import ProgrammingError, connections, transaction
from django.db.backends.utils import CursorWrapper
from psycopg import errors

from base.refusal import Refusal

KINDS = ("functions", "views", "roles")
# This table is there before any migration, and it stays when all migrations are taken back. So it tells our schema from that of
# another Django project (topics/schema.py). A row says which text of an object was applied.
CREATE = "CREATE TABLE IF NOT EXISTS store_object (name text PRIMARY KEY, digest text NOT NULL)"
# Somebody may have dropped an object by hand, so a row counts only if its object exists. Rights have no object of their own.
APPLIED = """
SELECT o.name, o.digest
  FROM store_object o, split_part(o.name, '/', 2) kind, split_part(o.name, '/', 3) named,
       split_part(named, '.', -1) object, coalesce(substring(named FROM '(.*)[.]'), current_schema()) place
 WHERE kind = 'roles'
    OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = to_regnamespace(place) AND proname = object)
    OR EXISTS (SELECT FROM pg_views WHERE schemaname = place AND viewname = object)
"""
SAVE = """
INSERT INTO store_object (name, digest) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET digest = excluded.digest
"""
SIGNATURES = """
SELECT oid::regprocedure::text FROM pg_proc, (SELECT %s::text AS named) asked
 WHERE pronamespace = to_regnamespace(coalesce(substring(named FROM '(.*)[.]'), current_schema()))
   AND proname = split_part(named, '.', -1)
"""
# CREATE SCHEMA IF NOT EXISTS asks for the right to create one even if the schema exists.
MAKE_SCHEMA = "DO $$ BEGIN IF to_regnamespace('{0}') IS NULL THEN CREATE SCHEMA {0}; END IF; END $$"
# Until the end of the transaction.
ONLY_OURS = "SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)"
# Everything that a DROP … CASCADE could take with it, except our own functions and views.
FOREIGN = """
SELECT attrelid::regclass || '.' || attname
  FROM pg_attribute JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
 WHERE nspname !~ '^pg_' AND relkind IN ('r', 'p', 'v', 'm', 'f') AND attnum > 0 AND NOT attisdropped
   AND relname <> ALL (%(ours)s) AND nspname || '.' || relname <> ALL (%(ours)s)
 UNION ALL
SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
 WHERE nspname !~ '^pg_' AND proname <> ALL (%(ours)s) AND nspname || '.' || proname <> ALL (%(ours)s)
"""
# PostgreSQL replaces a function only if its results stay, and a view only if its columns do. A function with other arguments
# stands beside the old one, and a COMMENT that names no arguments then means both.
OTHER_SHAPE = (errors.InvalidFunctionDefinition, errors.InvalidTableDefinition, errors.AmbiguousFunction)


def current() -> dict[str, str]:
    """Returns the texts of the objects as APP/KIND/NAME, each after those that it uses. Rights come last."""
    files = [file for app in apps.get_app_configs() for kind in KINDS for file in _files(Path(app.path), kind)]
    texts = {f"{file.parts[-4]}/{file.parent.name}/{file.stem}": file.read_text() for file in files}
    rights = {name: text for name, text in texts.items() if "/roles/" in name}
    return ordered({name: text for name, text in texts.items() if name not in rights}) | rights


def _files(app: Path, kind: str) -> list[Path]:
    return sorted((app / "sql" / kind).glob("*.sql"))


def ordered(texts: dict[str, str]) -> dict[str, str]:
    """Returns the texts, each after those whose names it has. Raises ValueError if objects use one another."""
    uses = {name: words(re.sub(r"--.*", "", text)) for name, text in texts.items()}
    order: dict[str, str] = {}
    while left := [name for name in texts if name not in order]:
        free = [name for name in left if not any(_object(other) in uses[name] for other in left if other != name)]
        if not free:
            raise ValueError(f"these objects use one another, so none can be the first: {', '.join(left)}")
        order |= {name: texts[name] for name in free}
    return order


def words(text: str) -> set[str]:
    """Returns the names in a statement: each by itself, and with the schema in front."""
    return {*re.findall(r"\w+", text), *re.findall(r"\w+\.\w+", text)}


def _object(name: str) -> str:
    return name.rpartition("/")[2]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def differing(using: str = "default") -> list[str]:
    """Returns the names of the objects that `apply` would apply or drop."""
    with connections[using].cursor() as cursor:
        applied = _applied(cursor) if _has_table(using) else {}
    wanted = {name: digest(text) for name, text in current().items()}
    return [name for name in {**wanted, **applied} if applied.get(name) != wanted.get(name)]


def apply(using: str = "default") -> list[str]:
    """Applies each object that the database lacks or has with another text, and drops those without a file, in one transaction.

    Returns the names of both. Processes of another version call the same functions meanwhile: they see all objects of before, or
    all new ones. A function with the same arguments and results keeps its identity, so running statements find it.
    """
    texts = current()
    wanted = {name: digest(text) for name, text in texts.items()}
    with transaction.atomic(using), connections[using].cursor() as cursor:
        cursor.execute(CREATE)
        cursor.execute("LOCK TABLE store_object IN EXCLUSIVE MODE")  # another host waits, and then finds nothing to do
        cursor.execute(ONLY_OURS)
        for schema in {_object(name).partition(".")[0] for name in texts if "." in _object(name)}:
            cursor.execute(MAKE_SCHEMA.format(schema))  # a restore can have left it out
        applied = _applied(cursor)
        done = []
        while name := next((name for name in wanted if applied.get(name) != wanted[name]), None):
            if _replace(cursor, name, texts[name]):
                # Objects that used the old one are gone, and rights on them, too. They come again in their order.
                applied = {other: text for other, text in _applied(cursor).items() if "/roles/" not in other}
            applied[name] = wanted[name]
            cursor.execute(SAVE, [name, applied[name]])
            done.append(name)
        gone = [name for name in applied if name not in texts]
        if gone:
            _drop(cursor, map(_object, gone))
            cursor.execute("DELETE FROM store_object WHERE name = ANY(%s)", [gone])
    return done + gone


def known(using: str = "default") -> set[str]:
    """Returns the names of our functions and views: those of this version, and those that the database has."""
    with connections[using].cursor() as cursor:
        applied = _applied(cursor) if _has_table(using) else {}
    return {_object(name) for name in {**current(), **applied}}


def mark(using: str = "default") -> None:
    """Makes the schema ours before its first migration. A first start that was killed half-way can then be repeated."""
    with connections[using].cursor() as cursor:
        cursor.execute(CREATE)


def drop_all(using: str = "default") -> None:
    """Drops every object, and forgets them. So tables under them can change backwards."""
    if not _has_table(using):
        return
    with transaction.atomic(using), connections[using].cursor() as cursor:
        _drop(cursor, map(_object, _applied(cursor)))
        cursor.execute("DELETE FROM store_object")


def _has_table(using: str) -> bool:
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT to_regclass('store_object')")
        return cursor.fetchone() != (None,)


def _applied(cursor: CursorWrapper) -> dict[str, str]:
    cursor.execute(APPLIED)
    return dict(cursor.fetchall())


def _replace(cursor: CursorWrapper, name: str, text: str) -> bool:
    """Creates or replaces one object. Returns whether an old one had to be dropped, together with the objects that used it."""
    old = _signatures(cursor, name)
    try:
        with transaction.atomic(cursor.db.alias):
            cursor.execute(text)
    except ProgrammingError as error:
        if not isinstance(error.__cause__, OTHER_SHAPE):
            raise
        _drop(cursor, old or [_object(name)])
        cursor.execute(text)
        return True
    if not old or _signatures(cursor, name) == old:
        return False
    _drop(cursor, old)  # the text has other arguments, so PostgreSQL made a second function
    return True


def _signatures(cursor: CursorWrapper, name: str) -> set[str]:
    cursor.execute(SIGNATURES, [_object(name)])
    return {signature for (signature,) in cursor.fetchall()}


def _drop(cursor: CursorWrapper, names: Iterable[str]) -> None:
    """Drops functions and views with our objects that use them. Raises Refusal if an object of somebody else uses one."""
    before = _foreign(cursor)
    for name in names:
        kind = "FUNCTION" if name.endswith(")") or _signatures(cursor, name) else "VIEW"
        cursor.execute(f"DROP {kind} IF EXISTS {name} CASCADE")
    if lost := sorted(before - _foreign(cursor)):
        raise Refusal(
            f"this version changes objects that {lost[0]} uses: drop it, run `manage.py migrate`, and create it again."
        )


def _foreign(cursor: CursorWrapper) -> set[str]:
    cursor.execute(FOREIGN, {"ours": [_object(name) for name in {**current(), **_applied(cursor)}]})
    return {name for (name,) in cursor.fetchall()}
