"""The lag of routers: the source's head minus the cursor, always computed at the call, for any number of routers in one query.

So a stuck router can never report a lag of 0.
"""

from __future__ import annotations

from typing import NamedTuple

from store.script import Script, Statement

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
OF_ALL = f"SELECT r.id, {LAG} {FROM}"
# Uses the primary key. A separate statement, because one plan for both cases would read every router.
OF_SOME = f"{OF_ALL} WHERE r.id = ANY (%(ids)s)"


class Lagging(NamedTuple):
    """The number of records not yet forwarded, the age (ms) of the oldest (None: none waits), and whether the router stalled."""

    lag: int
    oldest_unread_ms: int | None
    stalled: bool


def lagging(router_ids: list[int] | None, now: int) -> Script[dict[int, Lagging]]:
    """Returns the lag of these routers, or (None) of all routers, by id."""
    rows = yield Statement(
        OF_ALL if router_ids is None else OF_SOME, {"ids": router_ids, "now": now, "stalled_ms": STALLED_MS}
    )
    return {id: lag_of(lag, oldest, still) for id, lag, oldest, still in rows}


def lag_of(lag: int, oldest_unread_ms: int | None, still: bool) -> Lagging:
    if not lag:
        return Lagging(0, None, False)
    stalled = still and oldest_unread_ms is not None and oldest_unread_ms > STALLED_MS
    return Lagging(lag, None if oldest_unread_ms is None else max(oldest_unread_ms, 0), stalled)
