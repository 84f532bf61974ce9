"""The audit log: each change or delete of a topic, router, key or cursor, with its author, origin and the state before.

The function of a change writes the entry in the same transaction. So either both exist or neither. The log leaves out
appends, reads and moves of cursors. The log also leaves out a key's deletes of records, because some clients delete
thousands a second. Deletes of records in the admin are in the log. Only the admin shows the log. No key can read it. Rules:
docs/security.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from django.conf import settings

from base.clock import now_ms
from store.database import changed_rows
from store.script import Script, Statement
from wire.access.actor import actor

DAY_MS = 86_400_000
STEP = 5_000  # entries dropped in one statement

NOTE = """
INSERT INTO topics_auditentry (ts, actor, actor_name, origin, action, kind, name, before, after)
SELECT ts, actor, actor_name, origin, action, kind, name, before, after
  FROM json_populate_recordset(NULL::topics_auditentry, %s::json)
"""
# Uses the index on ts. If two sweeps run at once, the second waits for the rows of the first, and then finds them deleted.
DROP_OLD = """
DELETE FROM topics_auditentry WHERE id IN (SELECT id FROM topics_auditentry WHERE ts < %s ORDER BY ts LIMIT %s)
"""


class Change(NamedTuple):
    """An object of one kind, with the changed fields before and after. None: the object did not exist or was deleted."""

    name: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def note(
    action: str, kind: str, name: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None
) -> Script[None]:
    """Writes an entry for one change, in the transaction of the caller's change."""
    yield from note_all(action, kind, [Change(name, before, after)])


def note_all(action: str, kind: str, changes: Iterable[Change]) -> Script[None]:
    """Writes entries for changes of one kind, in the transaction of the caller's changes."""
    yield Statement(NOTE, (as_json([entry(action, kind, *change) for change in changes]),))


def entry(
    action: str, kind: str, name: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Returns a row of the log, with the current actor as the author and the current time."""
    who = actor()
    whose = {"actor": who.id, "actor_name": who.name, "origin": who.origin}
    return {"ts": now_ms(), **whose, "action": action, "kind": kind, "name": name, "before": before, "after": after}


def as_json(rows: Any) -> str:
    return msgspec.json.encode(rows).decode()


def note_difference(kind: str, name: str, before: dict[str, Any], after: dict[str, Any]) -> Script[None]:
    """Writes an entry with the fields that differ between two states of an object. Writes none if the states are equal."""
    changed = [field for field in after if before.get(field) != after[field]]
    if changed:
        was, now = ({field: state.get(field) for field in changed} for state in (before, after))
        yield from note("change", kind, name, was, now)


def drop_old(now: int, limit: int = STEP) -> int:
    """Drops entries older than TOPICS_AUDIT_DAYS, the oldest first, at most `limit`. Returns their number."""
    return changed_rows(DROP_OLD, [now - settings.TOPICS_AUDIT_DAYS * DAY_MS, limit])
