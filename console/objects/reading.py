"""The routers and readers of a topic, and the bytes that the topic stores."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from routers.lag import FROM, LAG, STALLED_MS, lag_of
from store.database import prepared
from topics.upkeep.usage import PINNED_BELOW, STORED
from watch.sessions import SavedPositions

MOST_ROWS = 200  # routers, and cursors
MOST_SESSIONS = 50
MOST_PIECES = 5_000  # forwarded pieces that one query reads

ROUTERS = f"""
SELECT r.id, r.name, source.name, dest.name, r.source_id, r.state, r.last_error, r.guarantee, c.forwarded_total, {LAG}
{FROM}
  JOIN topics_topic source ON source.id = r.source_id JOIN topics_topic dest ON dest.id = r.dest_id
 WHERE r.id = ANY (ARRAY(SELECT id FROM routers_router WHERE source_id = %(id)s
                         UNION SELECT id FROM routers_router WHERE dest_id = %(id)s))
 ORDER BY r.name LIMIT %(most)s
"""
CURSORS = """
SELECT CASE kind WHEN 'webhook' THEN kind ELSE 'cursor' END, name, seq, updated_ts FROM topic_cursors
 WHERE topic_id = %(id)s AND kind <> 'router' ORDER BY seq, name LIMIT %(most)s
"""
# Scans all sessions. Positions are JSON, and the table has at most 10,000 rows.
SESSIONS = """
SELECT wid, key_id, spots, open, seen_ts FROM topics_watchsession
 WHERE strpos(spots, %(name)s) > 0 ORDER BY open DESC, seen_ts DESC LIMIT %(most)s
"""


class RouterRow(NamedTuple):
    """A router of a topic. `leads_out`: the topic is its source."""

    id: int
    name: str
    source: str
    dest: str
    leads_out: bool
    state: str
    last_error: str | None
    guarantee: str
    forwarded: int
    lag: int
    oldest_ms: int | None


class Reader(NamedTuple):
    """A reader of a topic: a named cursor, a webhook, or a watch session of a key."""

    kind: str
    name: str
    seq: int
    lag: int
    state: str
    seen_ts: int


def routers(topic_id: int, now: int) -> list[RouterRow]:
    """Returns the routers from and to a topic, up to one more than MOST_ROWS."""
    rows = prepared(ROUTERS, {"id": topic_id, "now": now, "stalled_ms": STALLED_MS, "most": MOST_ROWS + 1})
    return [router_row(row, topic_id) for row in rows]


def router_row(row: Any, topic_id: int) -> RouterRow:
    id, name, source, dest, source_id, state, error, guarantee, forwarded, *numbers = row
    lag, oldest_ms, _ = lagging = lag_of(*numbers)
    leads_out, state = source_id == topic_id, lagging.shown(state)
    return RouterRow(id, name, source, dest, leads_out, state, error, guarantee, forwarded, lag, oldest_ms)


def cursors(topic_id: int, head: int) -> list[Reader]:
    """Returns the named cursors and the webhooks, the slowest first, up to one more than MOST_ROWS."""
    found = []
    for kind, cursor, seq, updated_ts in prepared(CURSORS, {"id": topic_id, "most": MOST_ROWS + 1}):
        lag = max(head - seq, 0)
        found.append(Reader(kind, cursor, seq, lag, "behind" if lag else "ok", updated_ts))
    return found


def sessions(name: str, head: int) -> list[Reader]:
    """Returns the watch sessions, the open ones first, up to one more than MOST_SESSIONS."""
    found = []
    wanted = {"name": f'"{name}"', "most": MOST_SESSIONS + 1}
    for wid, key_id, spots, is_open, seen_ts in prepared(SESSIONS, wanted):
        position = msgspec.json.decode(spots, type=SavedPositions).get(name)
        if position is not None:
            who = f"{wid[:12]}… of {key_id}"  # only a part of the wid, because a client continues a session with the whole wid
            state = "open" if is_open else "away"
            found.append(Reader("watch", who, position.seq, max(head - position.seq, 0), state, seen_ts))
    return found


def stored(topic_id: int) -> int | None:
    """Returns the payload bytes of the records stored under a topic, or None without records."""
    rows = prepared(STORED, {"id": topic_id})
    return rows[0][0] if rows else None


def pinned(topic_id: int) -> list[tuple[str, int]]:
    """Returns the topics that show records below this topic's floor, with the number of records. The records' bytes cannot be
    freed."""
    return [(name, count) for name, count in prepared(PINNED_BELOW, {"id": topic_id, "most": MOST_PIECES})]
