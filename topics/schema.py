"""The schema of our tables is the first of the search_path: `public`, or one of its own that DATABASE_URL names (docs/sql.md).

The schema `topics` has the functions for applications. PostgreSQL's default search_path begins with `"$user"`, so a role that is
called `topics`, too, finds this schema first. Our tables are there only if somebody put them there. A session of this role is
told even if the schema does not exist yet: another host may make it while the session is open.
"""

from __future__ import annotations

from typing import Any

from django.db import ProgrammingError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from psycopg import sql

from base.refusal import Refusal

ENTER = """
DO $$ BEGIN
    IF current_user = 'topics' AND to_regclass('topics.topics_topic') IS NULL THEN
        PERFORM set_config('search_path', regexp_replace(current_setting('search_path'), '"?\\$user"?,?\\s*', ''), false);
    END IF;
END $$
"""
# The schema that the search_path names first, whether it exists, and the one that PostgreSQL takes: the first that exists and
# that the role may use.
WANTED = """
SELECT wanted, EXISTS (SELECT FROM pg_namespace WHERE nspname = wanted), current_schema(), quote_ident(wanted),
       quote_ident(current_user)
  FROM replace(trim(split_part(current_setting('search_path'), ',', 1), ' "'), '$user', current_user) wanted
"""
# Tables of PostgreSQL itself are in these.
NOBODYS = ("", "information_schema")
OPTION = "options=-csearch_path%3Dtopics"
# The table of another Django project's migrations. It has the name of ours, and a search_path with several schemas shows it as if
# it were ours. The catalog is asked, because the role may lack the right to read the table itself.
FOREIGN = """
SELECT nspname, nspname = current_schema(), quote_ident(current_user)
  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
 WHERE c.oid = to_regclass('django_migrations')
   AND (nspname <> current_schema() OR NOT EXISTS (
        SELECT FROM pg_class o WHERE o.relnamespace = c.relnamespace AND relname IN ('store_object', 'topics_topichead')))
"""
# The statements that the owner of the database has to run before the first start. The functions for applications need the
# schema `topics`.
LACKING = """
SELECT quote_ident(current_user), quote_ident(current_database()), concat_ws('; ',
       CASE WHEN NOT has_schema_privilege(current_schema(), 'CREATE')
            THEN format('GRANT CREATE ON SCHEMA %I TO %I', current_schema(), current_user) END,
       CASE WHEN to_regnamespace('topics') IS NULL AND NOT has_database_privilege(current_database(), 'CREATE')
            THEN format('CREATE SCHEMA topics AUTHORIZATION %I', current_user)
            WHEN current_schema() <> 'topics' AND NOT has_schema_privilege(to_regnamespace('topics'), 'CREATE')
            THEN format('GRANT USAGE, CREATE ON SCHEMA topics TO %I', current_user) END)
 WHERE to_regclass('store_object') IS NULL AND to_regclass('topics_topichead') IS NULL
"""


def enter(connection: Any, **_: Any) -> None:
    """Runs on each new connection of Django, before anything asks for the schema."""
    with connection.cursor() as cursor:
        cursor.execute(ENTER)


def make(connection: BaseDatabaseWrapper) -> None:
    """Creates the schema that the search_path names, if it is missing. Raises Refusal, with the remedy, before the first table.

    The schema must be ours alone, because our tables of users and migrations have the names that every Django project uses.
    """
    with connection.cursor() as cursor:
        find(cursor)
        refuse_foreign(cursor)
        refuse_without_rights(cursor)


def find(cursor: CursorWrapper) -> None:
    """Creates the schema if it is missing. Raises Refusal if the role may not, or if the search_path names none."""
    cursor.execute(WANTED)
    wanted, exists, found, schema, user = cursor.fetchone()
    if (found or wanted).startswith("pg_") or (found or wanted) in NOBODYS:
        raise Refusal(
            f"the search_path of {user} names no schema for tables: add {OPTION} to DATABASE_URL (docs/sql.md)."
        )
    if found:
        return
    if exists:
        raise Refusal(
            f"{user} may not use the schema {schema}: run `GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}` as its owner."
        )
    try:
        cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(wanted)))
    except ProgrammingError as error:
        raise Refusal(
            f"the schema {schema} is missing, and {user} may not create it: "
            f"run `CREATE SCHEMA {schema} AUTHORIZATION {user}` as the owner of the database."
        ) from error


def refuse_foreign(cursor: CursorWrapper) -> None:
    cursor.execute(FOREIGN)
    for schema, shared, user in cursor.fetchall():
        if shared:
            raise Refusal(
                f"the schema {schema} has the tables of another Django project: run `CREATE SCHEMA topics AUTHORIZATION {user}` "
                f"and add {OPTION} to DATABASE_URL (docs/sql.md), or name a database for topics alone."
            )
        raise Refusal(
            f"the search_path of DATABASE_URL also has the schema {schema}, with the tables of another Django project: "
            "name only the schema of topics."
        )


def refuse_without_rights(cursor: CursorWrapper) -> None:
    """Raises Refusal before a first start if the role may not create tables and functions."""
    cursor.execute(LACKING)
    for user, database, statements in cursor.fetchall():
        if statements:
            raise Refusal(
                f"{user} may not create what topics needs: run `{statements}` as the owner of the database {database}."
            )
