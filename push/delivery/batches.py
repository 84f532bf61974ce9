"""A subscriber's batches.

A process takes the next batch under a lease (sql/functions/push_batch.sql), and stores the outcome
(sql/functions/push_settle.sql).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings

from push.bus.events import is_event
from push.delivery.callbacks import MOST_SECONDS, Outcome
from store.script import Script, Statement
from topics.heads import HEADS, MOST_LEAD_MS

# A lease outlasts the longest call by BEGIN_SECONDS and MARGIN_SECONDS. A call may begin within BEGIN_SECONDS (deliveries.py).
# The margin is for the body of the answer, and for clocks that run differently from PostgreSQL's.
BEGIN_SECONDS, MARGIN_SECONDS = 8.0, 2.0
LEASE_MS = int((MOST_SECONDS + BEGIN_SECONDS + MARGIN_SECONDS) * 1000)
MOST_BYTES = 8 * 1024 * 1024  # of a batch's events. A single event always fits
LONGEST_PAUSE_MS = settings.MAX_BACKOFF_MS * 3 // 2  # sql/functions/push_settle.sql
RATES = {
    "heal": settings.ROUTEMASTER_HP_HEAL_RATE,
    "damage": settings.ROUTEMASTER_HP_DAMAGE_RATE,
    "max_backoff_ms": settings.MAX_BACKOFF_MS,
    "min_backoff_ms": settings.ROUTEMASTER_MIN_BACKOFF_MS,
}

COLUMNS = (
    "verdict, wait_ms, full_seq, lease, batch_id, attempt, age_ms, callback, uuid, dropped, unreadable, records, traces"
)
BETWEEN_RECORDS, BEHIND_TOPIC = "\x1e", "\x1f"
TAKE = f"SELECT {COLUMNS} FROM push_batch(%(id)s, %(lease_ms)s, %(bytes)s)"
# Settles a batch. After an acknowledgement, and if wanted, takes the next batch in the same transaction and round trip.
SETTLE_AND_TAKE = f"""
SELECT settled.held, settled.retry_ms, taken.*
  FROM push_settle(%(id)s, %(lease)s, %(batch_id)s, %(acknowledged)s, %(status)s, %(error)s, %(duration_ms)s, %(events)s,
                   %(passed)s, %(bytes)s, %(dropped)s, %(heal)s, %(damage)s, %(max_backoff_ms)s, %(min_backoff_ms)s) settled
 CROSS JOIN LATERAL (
       SELECT {COLUMNS}
         FROM push_batch(CASE WHEN settled.held AND %(acknowledged)s AND %(go_on)s THEN %(id)s END::bigint,
                         %(lease_ms)s, %(most_bytes)s)) taken
"""
# A lease lasts at most LEASE_MS, and a pause at most LONGEST_PAUSE_MS. If PostgreSQL's clock was ahead, stored ends are later.
# The holder of such a lease measures the lease by its own clock, and has finished by the corrected end too.
SET_BACK = """
WITH latest AS (
    SELECT ts + %(lease_ms)s::bigint AS lease_ts, ts + %(pause_ms)s::bigint AS retry_ts
      FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ts) now),
late AS (
    SELECT client_id FROM push_subscriber, latest
     WHERE push_subscriber.leased_until_ts > latest.lease_ts OR push_subscriber.retry_ts > latest.retry_ts
       FOR NO KEY UPDATE OF push_subscriber SKIP LOCKED)
UPDATE push_subscriber s
   SET leased_until_ts = least(s.leased_until_ts, latest.lease_ts), retry_ts = least(s.retry_ts, latest.retry_ts)
  FROM latest
 WHERE s.client_id IN (SELECT client_id FROM late)
"""
# Whether the oldest event of a queue will have waited long enough in %(ms)s, by the same rule as push_batch. An event from more
# than %(lead_ms)s ahead is also due: a clock that was ahead has stamped the event.
OLDEST_IS_DUE = """topic_next_ts(t.id, greatest(c.seq, h.floor_seq))
             NOT BETWEEN %(now)s::bigint + %(ms)s::bigint - s.timeout_ms + 1 AND %(now)s::bigint + %(lead_ms)s::bigint"""
# Each subscriber with the head and the cursor of its queue. With LIMIT 1, the planner looks up each row.
QUEUED = """push_subscriber s
 CROSS JOIN LATERAL (SELECT id FROM topics_topic WHERE name = s.queue LIMIT 1) t
 CROSS JOIN LATERAL (SELECT head_seq, floor_seq FROM topic_heads WHERE topic_id = t.id LIMIT 1) h
 CROSS JOIN LATERAL (SELECT seq FROM topic_cursors WHERE topic_id = t.id AND kind = 'subscription' LIMIT 1) c"""
# Overdue subscribers: a delivery is due, but no process serves them. Reads the subscribers' rows, and the log of those that lag.
OVERDUE = f"""
SELECT s.client_id
  FROM {QUEUED}
 WHERE NOT s.paused AND greatest(s.retry_ts, s.leased_until_ts) <= %(now)s
   AND (c.seq < h.head_seq
        AND (s.batch_id IS NOT NULL OR h.head_seq - greatest(c.seq, h.floor_seq) >= s.max_events
             OR {OLDEST_IS_DUE})
        OR EXISTS (SELECT FROM routers_router r
                     JOIN topic_cursors rc ON rc.id = r.cursor_id JOIN topic_heads rh ON rh.topic_id = r.source_id
                    WHERE r.dest_id = t.id AND r.ordered AND rc.seq < rh.head_seq))
"""
# Deliveries that are due within %(ms)s: all full batches, and the last batch of a queue if its time comes.
DUE_WITHIN = f"""
SELECT coalesce(sum(batches), 0)::bigint FROM (
    SELECT CASE WHEN s.batch_id IS NOT NULL
                     OR {OLDEST_IS_DUE}
                THEN (h.head_seq - greatest(c.seq, h.floor_seq) + s.max_events - 1) / s.max_events
                ELSE (h.head_seq - greatest(c.seq, h.floor_seq)) / s.max_events END AS batches
      FROM {QUEUED}
     WHERE NOT s.paused AND s.retry_ts <= %(now)s::bigint + %(ms)s::bigint AND greatest(c.seq, h.floor_seq) < h.head_seq) due
"""


class Taken(NamedTuple):
    """An answer of push_batch. If a batch contains no event, nothing is sent."""

    verdict: str
    wait_ms: int | None = None
    full_seq: int | None = None
    lease: int | None = None
    batch_id: str | None = None
    attempt: int | None = None
    age_ms: int | None = None
    callback: str = ""
    uuid: str | None = None
    dropped: int = 0
    unreadable: int = 0  # records that this call put aside
    events: int = 0
    passed: int = 0  # records of the batch that are not events
    body: bytes = b""
    traces: tuple[str, ...] = ()  # the traceparents of the records, each once


class Settled(NamedTuple):
    """An answer of push_settle. `held` is False if another process has taken over the queue, or an operator has changed it."""

    held: bool
    retry_ms: int


def take(id: int) -> Script[Taken]:
    """Takes the subscriber's next batch under a new lease, if a batch is due."""
    rows = yield Statement(TAKE, {"id": id, "lease_ms": LEASE_MS, "bytes": MOST_BYTES})
    return opened(*rows[0])


def opened(*answer: Any) -> Taken:
    """Parses an answer of push_batch: events become the body, other records are only counted."""
    *columns, records, traces = answer
    taken = Taken(*columns)._replace(traces=tuple((traces or "").split()))
    if records is None:
        return taken
    pairs = [record.split(BEHIND_TOPIC, 1) for record in records.split(BETWEEN_RECORDS)]
    events = [data for topic, data in pairs if is_event(topic, data)]
    body = f"[{','.join(events)}]".encode()
    return taken._replace(events=len(events), passed=len(pairs) - len(events), body=body)


def settle_and_take(
    id: int, taken: Taken, outcome: Outcome, duration_ms: float, *, go_on: bool
) -> Script[tuple[Settled, Taken]]:
    """Stores the outcome of a batch. After an acknowledgement, and if `go_on`, takes the next batch."""
    rows = yield Statement(
        SETTLE_AND_TAKE,
        {
            "id": id,
            "lease": taken.lease,
            "batch_id": taken.batch_id,
            "acknowledged": outcome.acknowledged,
            "go_on": go_on,
            "status": outcome.status,
            "error": outcome.error,
            "duration_ms": duration_ms,
            "events": taken.events,
            "passed": taken.passed,
            "bytes": len(taken.body),
            "dropped": taken.dropped if taken.events else 0,  # a batch that was not sent told the subscriber nothing
            **RATES,
            "lease_ms": LEASE_MS,
            "most_bytes": MOST_BYTES,
        },
    )
    held, retry_ms, *next_one = rows[0]
    return Settled(held, retry_ms), opened(*next_one)


def set_back() -> Script[None]:
    """Shortens leases and pauses that PostgreSQL's clock set too late while it was ahead."""
    yield Statement(SET_BACK, {"lease_ms": LEASE_MS, "pause_ms": LONGEST_PAUSE_MS})


def overdue(now: int) -> Script[list[int]]:
    """Returns the ids of subscribers with a due delivery that no process serves."""
    rows = yield Statement(OVERDUE, {"now": now, "ms": 0, "lead_ms": MOST_LEAD_MS})
    return [id for (id,) in rows]


def heads_of(topic_ids: list[int]) -> Script[dict[int, int]]:
    """Returns the heads of the topics that exist, by id."""
    return dict((yield Statement(HEADS, (topic_ids,))))


def due_within(ms: int, now: int) -> Script[int]:
    """Returns how many deliveries are due within `ms` milliseconds of `now`."""
    ((due,),) = yield Statement(DUE_WITHIN, {"now": now, "ms": ms, "lead_ms": MOST_LEAD_MS})
    return int(due)
