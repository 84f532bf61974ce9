"""Move a router's cursor by hand (docs/console.md): back, to forward again, or on, past what its dest will not take.

Only while it stands still, paused or blocked: one that runs would move it meanwhile, and nobody could say what was skipped.
"""

from __future__ import annotations

from typing import NamedTuple

from base.errors import CursorMoved, Incompatible, InvalidRequest
from routers import graph
from routers.models import Router
from routers.routers import lock_cursors, wake_source
from routers.stored import Found, absent, find
from store.script import Script, Statement, atomically
from topics import audit

# Where the cursor stands, what the source still shows, and the first record that waits: own or forwarded.
PLACE = """
SELECT c.seq, head.floor_seq, head.head_seq,
       (SELECT min(seq) FROM (
            (SELECT seq FROM topics_record
              WHERE topic_id = c.topic_id AND seq > greatest(c.seq, head.floor_seq) AND NOT deleted ORDER BY seq LIMIT 1)
            UNION ALL
            (SELECT greatest(first_seq, c.seq + 1, head.floor_seq + 1) FROM routers_span
              WHERE topic_id = c.topic_id AND last_seq > greatest(c.seq, head.floor_seq) AND shown
              ORDER BY last_seq LIMIT 1)) next),
       r.state
  FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id JOIN topics_topichead head ON head.topic_id = c.topic_id
 WHERE r.id = %s
"""
SET = "UPDATE topics_cursor SET seq = %(seq)s, updated_ts = %(now)s WHERE id = %(cursor_id)s"
# It is tried again at once; one that was blocked may be blocked again, by what comes next.
RESUME = """
UPDATE routers_router SET state = CASE WHEN state = 'blocked' THEN 'running' ELSE state END,
       last_error = NULL, retry_ts = 0, retry_ms = 0, retry_bytes = NULL WHERE id = %s
"""


class Place(NamedTuple):
    """Where a router stands in its source. `next_seq` is the first record that it has not forwarded; None: there is none."""

    seq: int
    floor_seq: int
    head_seq: int
    next_seq: int | None
    state: str


def place(router: Found) -> Script[Place]:
    """Where the router stands now. Raises RouterNotFound where it has been deleted since it was found."""
    rows = yield Statement(PLACE, (router.id,))
    if not rows:
        raise absent(router.name)
    return Place(*rows[0])


def move(name: str, seq: int, expected_seq: int, now: int) -> Script[Place]:
    """Have the router go on after `seq`. `expected_seq` is where its cursor was when somebody decided that.

    Raises RouterNotFound, Incompatible (it runs), CursorMoved, or InvalidRequest (the source shows nothing there).
    """
    router, moved = yield from atomically(move_locked(name, seq, expected_seq, now))
    yield from wake_source(router.source_id)
    return moved


def move_locked(name: str, seq: int, expected_seq: int, now: int) -> Script[tuple[Found, Place]]:
    yield from graph.lock_graph()
    router = yield from find(name)
    # Whoever advances it is through from here on, and nobody else begins.
    yield from lock_cursors([router.cursor_id])
    at = yield from place(router)
    if at.state == Router.State.RUNNING:
        raise Incompatible(f"router {name!r} runs: pause it before its cursor is moved", router=name, state=at.state)
    if at.seq != expected_seq:
        raise CursorMoved(f"router {name!r} is at seq {at.seq} by now, not at {expected_seq}", seq=at.seq)
    if not at.floor_seq <= seq <= at.head_seq:
        message = f"{router.source!r} shows seqs {at.floor_seq + 1} to {at.head_seq}: go on after {at.floor_seq} to {at.head_seq}"
        raise InvalidRequest(message, seq=seq)
    yield Statement(SET, {"seq": seq, "now": now, "cursor_id": router.cursor_id})
    yield Statement(RESUME, (router.id,))
    yield from audit.note("change", "router", name, {"seq": at.seq}, {"seq": seq})
    return router, (yield from place(router))
