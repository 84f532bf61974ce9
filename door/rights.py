"""The rights of logins on topics (sql/tables/door_right.sql), for `topics rights`."""

from __future__ import annotations

from typing import NamedTuple

from django.db import ProgrammingError, connection, transaction
from psycopg import errors, sql

from base.errors import InvalidRequest, NotFound
from store.database import changed_rows
from wire.access.keys import PREFIX

SCOPES = ("read", "write", "commit")
# The role with the functions of a scope.
ROLES = {"read": "topics_reader", "commit": "topics_reader", "write": "topics_writer"}
LIST = """
SELECT login, prefix, scopes, to_regrole(quote_ident(login)) IS NOT NULL FROM door_right
 WHERE %(login)s::text IS NULL OR login = %(login)s ORDER BY login, prefix
"""
GRANT = """
INSERT INTO door_right AS held (login, prefix, scopes) VALUES (%s, %s, %s)
ON CONFLICT (login, prefix) DO UPDATE
   SET scopes = ARRAY(SELECT DISTINCT scope FROM unnest(held.scopes || excluded.scopes) scope ORDER BY scope)
"""
# The last row stays without scopes, because without a row the roles alone would count.
REVOKE = """
UPDATE door_right SET scopes = ARRAY(SELECT scope FROM unnest(scopes) scope WHERE scope <> ALL (%(scopes)s) ORDER BY scope)
 WHERE login = %(login)s AND prefix = %(prefix)s
"""
TIDY = """
DELETE FROM door_right held
 WHERE login = %(login)s AND scopes = '{}'
   AND EXISTS (SELECT FROM door_right other
                WHERE other.login = held.login AND (other.scopes <> '{}' OR other.prefix < held.prefix))
"""
FORGET = "DELETE FROM door_right WHERE login = %s"
KNOWN = "SELECT to_regrole(quote_ident(%s)) IS NOT NULL"
LACKING = "SELECT role FROM unnest(%s::text[]) role WHERE NOT pg_has_role(%s, role, 'USAGE')"


class Right(NamedTuple):
    """The scopes of a login for the topics whose names start with the prefix. `exists`: whether the login does."""

    login: str
    prefix: str
    scopes: list[str]
    exists: bool


def rights(login: str | None = None) -> list[Right]:
    """Returns the rights of a login, or of all."""
    with connection.cursor() as cursor:
        cursor.execute(LIST, {"login": login})
        return [Right(*row) for row in cursor.fetchall()]


def grant(login: str, prefix: str, scopes: list[str]) -> list[str]:
    """Grants the scopes for the topics with the prefix, and the roles with their functions.

    Returns the roles that this user may not grant. Raises NotFound or InvalidRequest.
    """
    check(login, prefix)
    missing = []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(GRANT, [login, prefix, sorted(scopes)])
        cursor.execute(LACKING, [sorted({ROLES[scope] for scope in scopes}), login])
        for (role,) in cursor.fetchall():
            try:
                with transaction.atomic():
                    cursor.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(login)))
            except ProgrammingError as error:
                if not isinstance(error.__cause__, errors.InsufficientPrivilege):
                    raise
                missing.append(role)
    return missing


def revoke(login: str, prefix: str, scopes: list[str]) -> None:
    """Takes the scopes for this prefix from the login. A login without any right left may do nothing. Raises NotFound."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(REVOKE, {"login": login, "prefix": prefix, "scopes": scopes})
        if not cursor.rowcount:
            raise NotFound(f"{login!r} has no right for the prefix {prefix!r}: `topics rights list` shows the rights")
        cursor.execute(TIDY, {"login": login})


def forget(login: str) -> int:
    """Deletes the rows of a login, so that its roles alone count. Returns their number."""
    return changed_rows(FORGET, [login])


def check(login: str, prefix: str) -> None:
    """Raises NotFound for a login that does not exist, and InvalidRequest for a prefix that no topic can have."""
    with connection.cursor() as cursor:
        cursor.execute(KNOWN, [login])
        if cursor.fetchone() == (False,):
            raise NotFound(f"the role {login!r} does not exist: run CREATE ROLE first")
    if prefix and not PREFIX.fullmatch(prefix):
        raise InvalidRequest(f"invalid prefix {prefix[:80]!r}: no topic can start with it")
