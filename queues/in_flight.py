"""The jobs in flight of a queue, for the console (docs/queues.md)."""

from __future__ import annotations

from typing import NamedTuple

from store.script import Script, Statement

# Reads the index on deadlines from now on, so the ended leases cost nothing.
IN_FLIGHT = """
SELECT seq, node, claimed_ts, deadline, deliveries, error, queue_now()
  FROM queues_lease
 WHERE topic_id + 0 = %s AND deadline > (SELECT queue_now()) AND node IS NOT NULL
 ORDER BY deadline, seq + 0 LIMIT %s
"""


class Flying(NamedTuple):
    """A job that a node holds. `error`: the last error that a holder sent. `now`: the time of PostgreSQL."""

    seq: int
    node: str
    claimed_ts: int | None
    deadline: int
    deliveries: int
    error: str | None
    now: int

    @property
    def left_ms(self) -> int:
        return self.deadline - self.now


def in_flight(topic_id: int, most: int) -> Script[list[Flying]]:
    """Returns up to `most` jobs, in the order of the ends of their leases."""
    rows = yield Statement(IN_FLIGHT, (topic_id, most))
    return [Flying(*row) for row in rows]
