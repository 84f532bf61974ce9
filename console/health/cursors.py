"""The cursors that do not advance although records wait, found a part at a time."""

from __future__ import annotations

from typing import NamedTuple

from store.database import prepared

STUCK_MS = 600_000  # a cursor with records to read that has not advanced for so long is stuck

# Routers, webhooks and subscribers of the bus have their own problems (problems.py). Looks up the head of each other cursor.
STUCK = """
WITH part AS MATERIALIZED (
    SELECT * FROM (SELECT id, topic_id, kind, name, seq, updated_ts FROM topic_cursors
                    WHERE id > %(after)s ORDER BY id LIMIT %(part)s) next
     UNION SELECT id, topic_id, kind, name, seq, updated_ts FROM topic_cursors WHERE id = ANY (%(known)s::bigint[])),
stuck AS MATERIALIZED (
    SELECT part.id, part.topic_id, part.name, h.head_seq - part.seq AS lag, part.updated_ts,
           row_number() OVER (ORDER BY h.head_seq - part.seq DESC, part.id) AS place
      FROM part CROSS JOIN LATERAL (SELECT head_seq FROM topic_heads WHERE topic_id = part.topic_id LIMIT 1) h
     WHERE part.kind NOT IN ('router', 'subscription', 'webhook') AND h.head_seq > part.seq
       AND part.updated_ts < %(now)s::bigint - %(stuck)s)
SELECT stuck.id, t.name, stuck.name, stuck.lag, stuck.updated_ts
  FROM stuck CROSS JOIN LATERAL (SELECT name FROM topics_topic WHERE id = stuck.topic_id LIMIT 1) t
 WHERE stuck.place <= %(most)s OR stuck.id = ANY (%(known)s::bigint[])
 ORDER BY stuck.lag DESC, stuck.id
"""
LAST = "SELECT id FROM topic_cursors WHERE id > %(after)s ORDER BY id OFFSET %(part)s - 1 LIMIT 1"


class StuckCursor(NamedTuple):
    topic: str
    name: str
    lag: int
    updated_ts: int


class Stuck:
    """The cursors furthest behind of those that have not advanced for STUCK_MS.

    A look judges the next `part` cursors, and those that an earlier look found. So it reads few pages, however many cursors there
    are, and a site with fewer than `part` cursors is judged as a whole by each look. A cursor that was found stays known until it
    advances, also if others are further behind, because the end of its problem is told. `most`: more than pages name, so that
    they can tell that there are others.
    """

    def __init__(self, part: int = 150, most: int = 20) -> None:
        self.part, self.most = part, most
        self.after = 0  # the last cursor that was judged in this round
        self.known: list[int] = []
        self.is_whole = False  # every cursor was judged at least once

    def look(self, now: int) -> list[StuckCursor]:
        """Returns cursors that are stuck now, those with the largest lags first: the first `most` of those that were judged, and
        those that an earlier look found."""
        place = {"after": self.after, "part": self.part}
        last = prepared(LAST, place)
        rows = prepared(STUCK, {**place, "known": self.known, "now": now, "stuck": STUCK_MS, "most": self.most})
        self.after, self.known = (last[0][0] if last else 0), [id for id, *_ in rows]
        self.is_whole = self.is_whole or not last
        return [StuckCursor(*fields) for _, *fields in rows]
