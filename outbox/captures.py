"""Captured tables for operators: their lost changes, and captures that ended although nobody ended them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from store.script import Script, Statement

# Few tables are captured, and one look reads them all. A table that was dropped has no triggers either.
CAPTURES = """
SELECT named, topic, lost, error, error_ts, capture_has_trigger(relid, id)
  FROM outbox_capture
 WHERE %(prefixes)s::text[] IS NULL OR topic ^@ ANY (%(prefixes)s)
 ORDER BY id LIMIT %(most)s
"""
# The captures of tables of a login, or of members of a role, to topics that the login may not write (door_may). A superuser is
# a member of every role.
OUTLIVING = """
SELECT named, topic
  FROM outbox_capture, to_regrole(quote_ident(%(login)s)) asked, to_regrole(quote_ident(owner)) owning
 WHERE (pg_has_role(asked, owning, 'MEMBER')
        OR pg_has_role(owning, asked, 'MEMBER') AND NOT (SELECT rolsuper FROM pg_roles WHERE oid = owning))
   AND NOT EXISTS (SELECT FROM door_right held
                    WHERE (held.login = %(login)s OR pg_has_role(asked, to_regrole(quote_ident(held.login)), 'MEMBER'))
                      AND 'write' = ANY (scopes) AND topic ^@ prefix)
 ORDER BY id
"""


class Captured(NamedTuple):
    """A captured table. `error`, `error_ts`: of the last loss, or of the snapshot. `is_live`: it has its triggers."""

    table: str
    topic: str
    lost: int
    error: str | None
    error_ts: int | None
    is_live: bool


def captured(prefixes: Sequence[str], most: int) -> Script[list[Captured]]:
    """Returns the captured tables, the oldest capture first. `prefixes`: of the names of their topics. Empty: all."""
    return [Captured(*row) for row in (yield Statement(CAPTURES, {"prefixes": list(prefixes) or None, "most": most}))]


def outliving(login: str) -> Script[list[tuple[str, str]]]:
    """Returns the table and the topic of each capture that has outlived the right of a login to write its topic.

    The login has rights. A capture stays until its end, because logins that write the table need no right.
    """
    return [(table, topic) for table, topic in (yield Statement(OUTLIVING, {"login": login}))]
