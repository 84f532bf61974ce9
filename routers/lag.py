"""The lag of routers: the source's head minus the cursor, always computed at the call, for any number of routers in one query.

So a stuck router can never report a lag of 0.
"""

from __future__ import annotations

from typing import NamedTuple

from store.script import Script, Statement
from topics.read.unread import first_unread, heads_of

STALLED_MS = 10_000  # a router is stalled if it lags, is not paused, and its cursor did not advance for this long

# For a router that has caught up, the query skips the search for the oldest record in the log.
LAG = """
       head.head_seq - c.seq AS lag,
       CASE WHEN c.seq < head.head_seq
            THEN %(now)s - topic_next_ts(r.source_id, greatest(c.seq, head.floor_seq)) END AS oldest_unread_ms,
       r.state <> 'paused' AND c.updated_ts < %(now)s - %(stalled_ms)s AS still
"""
FROM = """
  FROM routers_router r
  JOIN topic_cursors c ON c.id = r.cursor_id
  JOIN topic_heads head ON head.topic_id = r.source_id
"""
ROUTERS = "SELECT id, name, source_id, dest_id, cursor_id, errors_total, state FROM routers_router"
CURSORS = "SELECT id, seq, updated_ts, forwarded_total FROM topic_cursors WHERE id = ANY (%s)"
# Uses the primary key. A separate statement, because one plan for both cases would read every router.
OF_SOME = f"SELECT r.id, {LAG} {FROM} WHERE r.id = ANY (%(ids)s)"


class Lagging(NamedTuple):
    """The number of records not yet forwarded, the age (ms) of the oldest (None: none waits), and whether the router stalled."""

    lag: int
    oldest_unread_ms: int | None
    stalled: bool

    def shown(self, state: str) -> str:
        """Returns the state that people see of a router in this state: a running router can be stalled."""
        return "stalled" if self.stalled and state == "running" else state


class RouterLag(NamedTuple):
    """A router, its totals, and its lag. `updated_ts`: when its cursor advanced last."""

    id: int
    name: str
    source_id: int
    dest_id: int
    errors_total: int
    state: str
    forwarded_total: int
    updated_ts: int
    lag: Lagging


def lagging(router_ids: list[int], now: int) -> Script[dict[int, Lagging]]:
    """Returns the lag of these routers, by id."""
    rows = yield Statement(OF_SOME, {"ids": router_ids, "now": now, "stalled_ms": STALLED_MS})
    return {id: lag_of(lag, oldest, still) for id, lag, oldest, still in rows}


def lags_of_all(now: int) -> Script[list[RouterLag]]:
    """Returns all routers. Reads each table once (topics/read/unread.py), and cursors before heads, so no lag is negative."""
    routers = yield Statement(ROUTERS)
    cursors = {id: cursor for id, *cursor in (yield Statement(CURSORS, ([router[4] for router in routers],)))}
    heads = yield from heads_of({router[2] for router in routers})
    found = [each for each in routers if each[2] in heads and each[4] in cursors]  # others are deleted meanwhile
    places = {each[0]: (heads[each[2]], max(cursors[each[4]][0], heads[each[2]].floor_seq)) for each in found}
    unread = yield from first_unread(places.values())
    lags = []
    for id, name, source_id, dest_id, cursor_id, errors_total, state in found:
        (seq, updated_ts, forwarded_total), (head, after) = cursors[cursor_id], places[id]
        first, still = unread.get((source_id, after)), state != "paused" and updated_ts < now - STALLED_MS
        lag = lag_of(head.head_seq - seq, None if first is None else now - first.ts, still)
        lags.append(RouterLag(id, name, source_id, dest_id, errors_total, state, forwarded_total, updated_ts, lag))
    return lags


def lag_of(lag: int, oldest_unread_ms: int | None, still: bool) -> Lagging:
    if not lag:
        return Lagging(0, None, False)
    stalled = still and oldest_unread_ms is not None and oldest_unread_ms > STALLED_MS
    return Lagging(lag, None if oldest_unread_ms is None else max(oldest_unread_ms, 0), stalled)
