"""The routers that are furthest behind, and those that hold up records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from routers.lag import LAG, STALLED_MS, lag_of
from store.database import prepared

LOOKED = 40  # routers whose lag is looked at for each reason to look

# A router that lags has a source that was written lately (routers/advance.py), or does not run, or lagged at the last minute,
# when it got a sample. Blocked routers come first, then those that do not advance, with any lag. Paused routers come last.
LAGGING = f"""
WITH found AS MATERIALIZED (
    SELECT r.id FROM unsettled_heads() written
     CROSS JOIN LATERAL (SELECT id FROM routers_router WHERE source_id = written.topic_id OFFSET 0) r WHERE written.routed
     UNION (SELECT id FROM routers_router WHERE state <> 'running' AND name ^@ %(prefix)s ORDER BY state, id LIMIT %(looked)s)
     UNION (SELECT object_id FROM console_sample
             WHERE ts > %(now)s::bigint - 150000 AND kind = 'router' AND lag > 0
             GROUP BY object_id ORDER BY max(lag) DESC, object_id LIMIT %(looked)s)
     UNION SELECT id FROM routers_router WHERE name = ANY (%(told)s::text[])),
lagging AS MATERIALIZED (
    SELECT r.id, r.name, r.source_id, r.dest_id, r.state, r.last_error, {LAG}
      FROM found CROSS JOIN LATERAL (SELECT * FROM routers_router WHERE id = found.id LIMIT 1) r
     CROSS JOIN LATERAL (SELECT seq, updated_ts FROM topic_cursors WHERE id = r.cursor_id LIMIT 1) c
     CROSS JOIN LATERAL (SELECT head_seq, floor_seq FROM topic_heads WHERE topic_id = r.source_id LIMIT 1) head
     WHERE head.head_seq > c.seq AND r.name ^@ %(prefix)s AND {{wanted}}
     ORDER BY r.state = 'blocked' DESC, r.state = 'paused', c.updated_ts < %(now)s::bigint - %(stalled_ms)s DESC,
              head.head_seq - c.seq DESC, r.id LIMIT %(most)s)
SELECT r.id, r.name, source.name, dest.name, r.state, r.last_error, r.lag, r.oldest_unread_ms, r.still
  FROM lagging r JOIN topics_topic source ON source.id = r.source_id JOIN topics_topic dest ON dest.id = r.dest_id
 ORDER BY r.state = 'blocked' DESC, r.state = 'paused', r.still DESC, r.lag DESC, r.id
"""
BEHIND = LAGGING.format(wanted="true")
# Paused, blocked and stalled routers (Lagging in routers/lag.py). The others lag at any moment of a busy site, and would fill
# the places of these.
HELD_UP = LAGGING.format(
    wanted="""(r.state <> 'running' OR (
         c.updated_ts < %(now)s::bigint - %(stalled_ms)s
         AND topic_next_ts(r.source_id, greatest(c.seq, head.floor_seq)) < %(now)s::bigint - %(stalled_ms)s))"""
)


class Behind(NamedTuple):
    """A router with records left to forward."""

    id: int
    name: str
    source: str
    dest: str
    state: str
    last_error: str | None
    lag: int
    oldest_ms: int | None  # the age of the oldest record that waits


def behind(now: int, most: int) -> list[Behind]:
    """Returns at most `most` routers with records left to forward: blocked routers first, then those furthest behind."""
    return look(BEHIND, now, most)


def held_up(now: int, most: int, told: Sequence[str] = (), prefix: str = "") -> list[Behind]:
    """Returns at most `most` blocked, stalled and paused routers with records left to forward, in this order.

    `told`: names of routers to look at in any case. `prefix`: of the names.
    """
    return look(HELD_UP, now, most, told, prefix)


def look(statement: str, now: int, most: int, told: Sequence[str] = (), prefix: str = "") -> list[Behind]:
    routers = []
    asked = {"now": now, "stalled_ms": STALLED_MS, "looked": LOOKED, "most": most}
    for id, name, source, dest, state, error, *numbers in prepared(
        statement, {**asked, "told": list(told), "prefix": prefix}
    ):
        lag, oldest_ms, _ = lagging = lag_of(*numbers)
        routers.append(Behind(id, name, source, dest, lagging.shown(state), error, lag, oldest_ms))
    return routers
