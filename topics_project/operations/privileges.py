"""Protects the server from logins of analysts: its locks, its disk, and names in its schema (docs/security.md).

PostgreSQL grants these rights to PUBLIC, and so to every login. Logins that write topics keep the rights.
"""

from __future__ import annotations

from django.db import connection

from embedded.rights import CLOSE_FUNCTIONS, OPEN_FUNCTIONS

WRITERS = """
SELECT quote_ident(rolname) FROM pg_roles WHERE rolcanlogin AND has_table_privilege(oid, 'topics_topichead', 'UPDATE')
"""
# The rights that an owner can revoke.
OPEN_PLACES = """
SELECT format('TEMPORARY ON DATABASE %I', datname) FROM pg_database
 WHERE datname = current_database() AND has_database_privilege('public', oid, 'TEMPORARY') AND pg_has_role(datdba, 'USAGE')
 UNION ALL
SELECT format('CREATE ON SCHEMA %I', nspname) FROM pg_namespace
 WHERE nspname = current_schema() AND has_schema_privilege('public', oid, 'CREATE') AND pg_has_role(nspowner, 'USAGE')
"""
# In a schema of its own, the server is a guest in the application's database.
IS_GUEST = "SELECT nspname FROM pg_namespace WHERE nspname = current_schema() AND nspname <> 'public'"
SUPERUSER = "SELECT rolname FROM pg_roles WHERE rolname = current_user AND rolsuper"


def close_database() -> bool:
    """Revokes rights from PUBLIC that could block this server.

    Returns False if the role is not a superuser and locks stay open. If all rights are already revoked, the function writes
    nothing. In an application's database it revokes none, because other logins need these rights.
    """
    with connection.cursor() as cursor:

        def rows(statement: str) -> list[str]:
            cursor.execute(statement)
            return [row[0] for row in cursor.fetchall()]

        if rows(IS_GUEST):
            return True
        writers = ", ".join(rows(WRITERS))
        for each in rows(OPEN_PLACES):
            cursor.execute(f"GRANT {each} TO {writers}")
            cursor.execute(f"REVOKE {each} FROM PUBLIC")
        if not rows(OPEN_FUNCTIONS):
            return True
        if not rows(SUPERUSER):
            return False
        cursor.execute(CLOSE_FUNCTIONS.replace("{writers}", writers))
    return True
