"""The audit log: who changed or deleted which topic, router, key or cursor, from where, and what it was before.

The domain's functions write it in the transaction of the change: either both are there or neither. Appends, reads and
moves of cursors are not in it, nor are records that a key deletes, which some clients do thousands of times a second; those
that a person deletes in the admin are. It is read in the admin alone; no key reads it. Rules: docs/security.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from django.conf import settings
from django.db import connection

from base.clock import now_ms
from store.script import Script, Statement
from wire.actor import actor

DAY_MS = 86_400_000
STEP = 5_000  # entries dropped in one statement

NOTE = """
INSERT INTO topics_auditentry (ts, actor, actor_name, origin, action, kind, name, before, after)
SELECT ts, actor, actor_name, origin, action, kind, name, before, after
  FROM json_populate_recordset(NULL::topics_auditentry, %s::json)
"""
# By the index on ts. Two sweeps at once take turns at the rows, and the second finds them gone.
DROP_OLD = """
DELETE FROM topics_auditentry WHERE id IN (SELECT id FROM topics_auditentry WHERE ts < %s ORDER BY ts LIMIT %s)
"""


class Change(NamedTuple):
    """An object of one kind, and what of it was and is. None: it was not there before, or is not there any more."""

    name: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def note(
    action: str, kind: str, name: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None
) -> Script[None]:
    """Write down one change. The caller is in the transaction that makes it."""
    yield from note_all(action, kind, [Change(name, before, after)])


def note_all(action: str, kind: str, changes: Iterable[Change]) -> Script[None]:
    """Write down changes of one kind. The caller is in the transaction that makes them."""
    yield Statement(NOTE, (as_json([entry(action, kind, *change) for change in changes]),))


def entry(
    action: str, kind: str, name: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A row of the log: whoever acts now did this, now."""
    who = actor()
    whose = {"actor": who.id, "actor_name": who.name, "origin": who.origin}
    return {"ts": now_ms(), **whose, "action": action, "kind": kind, "name": name, "before": before, "after": after}


def as_json(rows: Any) -> str:
    return msgspec.json.encode(rows).decode()


def note_difference(kind: str, name: str, before: dict[str, Any], after: dict[str, Any]) -> Script[None]:
    """Write down what differs between two states of an object, if anything does."""
    changed = [field for field in after if before.get(field) != after[field]]
    if changed:
        was, now = ({field: state.get(field) for field in changed} for state in (before, after))
        yield from note("change", kind, name, was, now)


def drop_old(now: int, limit: int = STEP) -> int:
    """Drop entries that are older than TOPICS_AUDIT_DAYS, the oldest first. Returns how many: `limit` at the most."""
    with connection.cursor() as cursor:
        cursor.execute(DROP_OLD, [now - settings.TOPICS_AUDIT_DAYS * DAY_MS, limit])
        return int(cursor.rowcount)
