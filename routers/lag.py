"""How far routers are behind: always source head minus cursor, computed when asked, for any number in one query.

A link that is stuck can so never say it has no lag.
"""

from __future__ import annotations

from typing import NamedTuple

from store.script import Script, Statement

STALLED_MS = 10_000  # not paused, with something to do, and not moved for so long

# Of a router that has caught up nobody asks for the oldest: its probe of the log is left out.
LAG = """
       head.head_seq - c.seq AS lag,
       CASE WHEN c.seq < head.head_seq
            THEN %(now)s - topic_next_ts(r.source_id, greatest(c.seq, head.floor_seq)) END AS oldest_unread_ms,
       r.state <> 'paused' AND c.updated_ts < %(now)s - %(stalled_ms)s AS still
"""
FROM = """
  FROM routers_router r
  JOIN topics_cursor c ON c.id = r.cursor_id
  JOIN topics_topichead head ON head.topic_id = r.source_id
"""
OF_ALL = f"SELECT r.id, {LAG} {FROM}"
# By the primary key. Apart from the other one: a plan for both would read every router.
OF_SOME = f"{OF_ALL} WHERE r.id = ANY (%(ids)s)"


class Lagging(NamedTuple):
    """Records not yet forwarded, the age of the oldest of them (ms, None: there is none), and whether nobody moves it."""

    lag: int
    oldest_unread_ms: int | None
    stalled: bool


def lagging(router_ids: list[int] | None, now: int) -> Script[dict[int, Lagging]]:
    """The lag of these routers, or of all, by id."""
    rows = yield Statement(
        OF_ALL if router_ids is None else OF_SOME, {"ids": router_ids, "now": now, "stalled_ms": STALLED_MS}
    )
    return {id: lag_of(lag, oldest, still) for id, lag, oldest, still in rows}


def lag_of(lag: int, oldest_unread_ms: int | None, still: bool) -> Lagging:
    if not lag:
        return Lagging(0, None, False)
    stalled = still and oldest_unread_ms is not None and oldest_unread_ms > STALLED_MS
    return Lagging(lag, None if oldest_unread_ms is None else max(oldest_unread_ms, 0), stalled)
