"""The processes of the site and the servers that the site needs, with their last heartbeats."""

from __future__ import annotations

from typing import NamedTuple

from base.units import duration
from console.health import heartbeat
from store.database import prepared

MOST = 100  # processes of each kind, so that the dead ones of a kind hide no other kind

LAST_SEEN = """
SELECT process.kind, process.host, process.pid, process.started_ts, process.seen_ts, process.worked_ts
  FROM (SELECT DISTINCT kind FROM console_process) known
 CROSS JOIN LATERAL (SELECT * FROM console_process WHERE kind = known.kind ORDER BY seen_ts DESC LIMIT %(most)s) process
 ORDER BY process.kind, process.seen_ts DESC
"""


class ProcessRow(NamedTuple):
    kind: str
    host: str
    pid: int
    started_ts: int
    seen_ts: int
    worked_ts: int | None


class Sign(NamedTuple):
    """A process or server, and its last heartbeat."""

    kind: str
    where: str
    state: str
    seen_ts: int | None
    more: str


def living(now: int, took_ms: float) -> list[Sign]:
    """Returns the processes of the site, at most MOST of each kind, and the servers that the site needs."""
    found = [
        Sign("PostgreSQL", "", "ok", now, f"answered in {took_ms:.1f} ms"),
    ]
    seen = heartbeat.seen()
    if seen is not None:
        alive = seen.waiting_tasks is not None
        more = (
            f"{seen.waiting_tasks} tasks wait"
            if alive
            else "Forwarding waits for the sweep. Appends and reads continue"
        )
        found.append(Sign("Redis", "", "ok" if alive else "silent", seen.redis_ts, more))
    rows = [ProcessRow(*row) for row in prepared(LAST_SEEN, {"most": MOST})]
    for each in rows:
        alive = each.seen_ts > now - heartbeat.STALE_MS
        if not alive and any(other.kind == each.kind and other.started_ts > each.seen_ts for other in rows):
            continue  # another process has replaced this one, also if that one has ended since
        did = {"worker": "took a task", "push": "took a task", "beat": "sent a task"}.get(each.kind)
        more = "" if did is None or not each.worked_ts else f"{did} {duration(now - each.worked_ts)} ago"
        where = f"{each.host}, process {each.pid}"
        found.append(Sign(each.kind, where, "ok" if alive else "silent", each.seen_ts, more))
    for kind in heartbeat.expected(dict(prepared(heartbeat.ALIVE, ()))):
        if not any(each.kind == kind for each in found):
            found.append(Sign(kind, "", "silent", None, "none runs"))
    return found
