"""Moves a router's cursor by hand (docs/console.md): back to forward records again, or ahead past records that the dest rejects.

The router must be paused or blocked. A running router would move the cursor meanwhile, and skipped records would be unknown.
"""

from __future__ import annotations

from typing import NamedTuple

from base.errors import Incompatible, InvalidRequest, RouterMoved
from routers import graph
from routers.models import Router
from routers.routers import lock_cursors, wake_source
from routers.stored import StoredRouter, absent, find
from store.script import Script, Statement, atomically
from topics import audit
from topics.cursors import owned as owned_cursors

# The position of the router in its source (RouterPosition).
PLACE = f"""
SELECT source.seq, source.floor_seq, source.head_seq, source.next_seq, r.state
  FROM routers_router r CROSS JOIN LATERAL ({owned_cursors.NEXT} WHERE c.id = r.cursor_id) source
 WHERE r.id = %s
"""
# Retries a blocked router at once. The next records may block the router again.
RESUME = """
UPDATE routers_router SET state = CASE WHEN state = 'blocked' THEN 'running' ELSE state END,
       last_error = NULL, retry_ts = 0, retry_ms = 0, retry_bytes = NULL WHERE id = %s
"""


class RouterPosition(NamedTuple):
    """The position of a router in its source. `next_seq` is the first record that is not forwarded yet. None: no record waits."""

    seq: int
    floor_seq: int
    head_seq: int
    next_seq: int | None
    state: str


def place(router: StoredRouter) -> Script[RouterPosition]:
    """Returns the current position of the router. Raises RouterNotFound if the router was deleted meanwhile."""
    rows = yield Statement(PLACE, (router.id,))
    if not rows:
        raise absent(router.name)
    return RouterPosition(*rows[0])


def move(name: str, seq: int, expected_seq: int, now: int) -> Script[RouterPosition]:
    """Makes the router continue after `seq`. `expected_seq` is the position of the cursor when the operator decided to move it.

    Raises RouterNotFound, Incompatible (the router runs), RouterMoved, or InvalidRequest (`seq` is outside of the source).
    """
    router, moved = yield from atomically(move_locked(name, seq, expected_seq, now))
    yield from wake_source(router.source_id)
    return moved


def move_locked(name: str, seq: int, expected_seq: int, now: int) -> Script[tuple[StoredRouter, RouterPosition]]:
    yield from graph.lock_graph()
    router = yield from find(name)
    # Waits for a running advance of this router. No other advance can start until the commit.
    yield from lock_cursors([router.cursor_id])
    at = yield from place(router)
    if at.state == Router.State.RUNNING:
        raise Incompatible(f"router {name!r} runs: pause the router, then move its cursor", router=name, state=at.state)
    if at.seq != expected_seq:
        raise RouterMoved.of(router=name, seq=at.seq, expected_seq=expected_seq)
    if not at.floor_seq <= seq <= at.head_seq:
        message = (
            f"invalid seq {seq}: expected {at.floor_seq} to {at.head_seq}, the floor and the head of {router.source!r}"
        )
        raise InvalidRequest(message, seq=seq)
    yield Statement(owned_cursors.SET, {"seq": seq, "now": now, "cursor_id": router.cursor_id})
    yield Statement(RESUME, (router.id,))
    yield from audit.note("change", "router", name, {"seq": at.seq}, {"seq": seq})
    return router, (yield from place(router))
