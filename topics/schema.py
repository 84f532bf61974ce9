"""The schema of our tables is the first of the search_path: `public`, or one of its own that DATABASE_URL names (docs/sql.md).

The schema `topics` has the functions for applications. PostgreSQL's default search_path begins with `"$user"`, so a role that is
called `topics`, too, finds this schema first. Our tables are there only if somebody put them there. A session of this role is
told even if the schema does not exist yet: another host may make it while the session is open.
"""

from __future__ import annotations

from typing import Any

from django.db import ProgrammingError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql

from base.refusal import Refusal

ENTER = """
DO $$ BEGIN
    IF current_user = 'topics' AND to_regclass('topics.topics_topic') IS NULL THEN
        PERFORM set_config('search_path', regexp_replace(current_setting('search_path'), '"?\\$user"?,?\\s*', ''), false);
    END IF;
END $$
"""
WANTED = "SELECT trim(split_part(current_setting('search_path'), ',', 1), ' \"'), current_schema(), current_user"
# A table of another Django project, which a search_path with several schemas shows as if it were ours.
FOREIGN = """
SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
 WHERE c.oid = to_regclass('django_migrations') AND nspname <> current_schema()
"""


def enter(connection: Any, **_: Any) -> None:
    """Runs on each new connection of Django, before anything asks for the schema."""
    with connection.cursor() as cursor:
        cursor.execute(ENTER)


def make(connection: BaseDatabaseWrapper) -> None:
    """Creates the schema that the search_path names, if it is missing. Raises Refusal.

    An owner without the right to create schemas gets the statement for somebody with this right.
    """
    with connection.cursor() as cursor:
        cursor.execute(WANTED)
        wanted, found, user = cursor.fetchone()
        if found is None:
            try:
                cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(wanted)))
            except ProgrammingError as error:
                raise Refusal(
                    f"the schema {wanted} is missing, and {user} may not create it: "
                    f"run `CREATE SCHEMA {wanted} AUTHORIZATION {user}` as the owner of the database."
                ) from error
        cursor.execute(FOREIGN)
        if row := cursor.fetchone():
            raise Refusal(
                f"the search_path of DATABASE_URL also has the schema {row[0]}, with the tables of another Django project: "
                "name only the schema of topics."
            )
