"""A subscriber's batches: the next one under a lease, and what became of it (sql/push_batch.sql, sql/push_settle.2.sql)."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings

from push.callbacks import MOST_SECONDS, Outcome
from push.events import is_event
from store.script import Script, Statement
from topics.upkeep.retention import MOST_LEAD_MS

# A lease outlasts the longest call by this. In the first part of it a call may begin (deliveries.py), the rest is for clocks that
# run unlike PostgreSQL's.
BEGIN_SECONDS, MARGIN_SECONDS = 8.0, 2.0
LEASE_MS = int((MOST_SECONDS + BEGIN_SECONDS + MARGIN_SECONDS) * 1000)
MOST_BYTES = 8 * 1024 * 1024  # of a batch's events; one event always fits
LONGEST_PAUSE_MS = settings.MAX_BACKOFF_MS * 3 // 2  # sql/push_settle.2.sql
RATES = (settings.ROUTEMASTER_HP_HEAL_RATE, settings.ROUTEMASTER_HP_DAMAGE_RATE, settings.MAX_BACKOFF_MS)

COLUMNS = "verdict, wait_ms, full_seq, lease, batch_id, attempt, age_ms, callback, uuid, dropped, unreadable, records"
BETWEEN_RECORDS, BEHIND_TOPIC = "\x1e", "\x1f"
TAKE = f"SELECT {COLUMNS} FROM push_batch(%(id)s, %(lease_ms)s, %(bytes)s)"
# A batch that is acknowledged, and the one that comes next where it is wanted, in one transaction and one round trip.
SETTLE_AND_TAKE = f"""
SELECT settled.held, settled.retry_ms, taken.*
  FROM push_settle(%(id)s, %(lease)s, %(batch_id)s, %(acknowledged)s, %(status)s, %(error)s, %(duration_ms)s, %(events)s,
                   %(passed)s, %(bytes)s, %(dropped)s, %(heal)s, %(damage)s, %(max_backoff_ms)s) settled
 CROSS JOIN LATERAL (
       SELECT {COLUMNS}
         FROM push_batch(CASE WHEN settled.held AND %(acknowledged)s AND %(go_on)s THEN %(id)s END::bigint,
                         %(lease_ms)s, %(most_bytes)s)) taken
"""
# No lease lasts longer than LEASE_MS, and no pause longer than the longest: what ends later began while PostgreSQL's clock was
# ahead. Whoever holds such a lease counts it by a clock of its own, and is through by the new end, too.
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
# Whether the oldest event of a queue will have waited long enough in %(ms)s, as push_batch has it. So has one from more than
# %(lead_ms)s ahead: a clock that was ahead has stamped it.
OLDEST_IS_DUE = """topic_next_ts(t.id, greatest(c.seq, h.floor_seq))
             NOT BETWEEN %(now)s::bigint + %(ms)s::bigint - s.timeout_ms + 1 AND %(now)s::bigint + %(lead_ms)s::bigint"""
# Overdue: nobody is at it, though its time has come. By the subscribers' rows; the log is asked for those that lag.
OVERDUE = f"""
SELECT s.client_id
  FROM push_subscriber s
  JOIN topics_topic t ON t.name = s.queue JOIN topics_topichead h ON h.topic_id = t.id
  JOIN topics_cursor c ON c.topic_id = t.id AND c.kind = 'subscription'
 WHERE NOT s.paused AND greatest(s.retry_ts, s.leased_until_ts) <= %(now)s
   AND (c.seq < h.head_seq
        AND (s.batch_id IS NOT NULL OR h.head_seq - greatest(c.seq, h.floor_seq) >= s.max_events
             OR {OLDEST_IS_DUE})
        OR EXISTS (SELECT FROM routers_router r
                     JOIN topics_cursor rc ON rc.id = r.cursor_id JOIN topics_topichead rh ON rh.topic_id = r.source_id
                    WHERE r.dest_id = t.id AND r.ordered AND rc.seq < rh.head_seq))
"""
# By the heads' primary key.
HEADS = "SELECT topic_id, head_seq FROM topics_topichead WHERE topic_id = ANY (%s)"
# Deliveries that are due within so many ms: batches that are full, and the last one where its time comes.
DUE_WITHIN = f"""
SELECT coalesce(sum(batches), 0)::bigint FROM (
    SELECT CASE WHEN s.batch_id IS NOT NULL
                     OR {OLDEST_IS_DUE}
                THEN (h.head_seq - greatest(c.seq, h.floor_seq) + s.max_events - 1) / s.max_events
                ELSE (h.head_seq - greatest(c.seq, h.floor_seq)) / s.max_events END AS batches
      FROM push_subscriber s
      JOIN topics_topic t ON t.name = s.queue JOIN topics_topichead h ON h.topic_id = t.id
      JOIN topics_cursor c ON c.topic_id = t.id AND c.kind = 'subscription'
     WHERE NOT s.paused AND s.retry_ts <= %(now)s::bigint + %(ms)s::bigint AND greatest(c.seq, h.floor_seq) < h.head_seq) due
"""


class Taken(NamedTuple):
    """An answer of push_batch. A batch may hold no event at all: nothing is sent then."""

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
    unreadable: int = 0  # records that this take put aside
    events: int = 0
    passed: int = 0  # records of the batch that are no events
    body: bytes = b""


class Settled(NamedTuple):
    """An answer of push_settle. Not `held`: somebody else has the queue."""

    held: bool
    retry_ms: int


def take(id: int) -> Script[Taken]:
    """The subscriber's next batch, under a lease from now on, if one is due."""
    rows = yield Statement(TAKE, {"id": id, "lease_ms": LEASE_MS, "bytes": MOST_BYTES})
    return opened(*rows[0])


def opened(*answer: Any) -> Taken:
    """The answer with its records looked into: the events are the body, and the others are counted."""
    *columns, records = answer
    taken = Taken(*columns)
    if records is None:
        return taken
    pairs = [record.split(BEHIND_TOPIC, 1) for record in records.split(BETWEEN_RECORDS)]
    events = [data for topic, data in pairs if is_event(topic, data)]
    body = f"[{','.join(events)}]".encode()
    return taken._replace(events=len(events), passed=len(pairs) - len(events), body=body)


def settle_and_take(
    id: int, taken: Taken, outcome: Outcome, duration_ms: float, *, go_on: bool
) -> Script[tuple[Settled, Taken]]:
    """Say what became of a batch. Where it was acknowledged, and it is to `go_on`, take the next one."""
    heal, damage, max_backoff_ms = RATES
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
            "dropped": taken.dropped if taken.events else 0,  # who is sent nothing is told nothing
            "heal": heal,
            "damage": damage,
            "max_backoff_ms": max_backoff_ms,
            "lease_ms": LEASE_MS,
            "most_bytes": MOST_BYTES,
        },
    )
    held, retry_ms, *next_one = rows[0]
    return Settled(held, retry_ms), opened(*next_one)


def set_back() -> Script[None]:
    """Have no subscriber wait until the time of a clock that was ahead."""
    yield Statement(SET_BACK, {"lease_ms": LEASE_MS, "pause_ms": LONGEST_PAUSE_MS})


def overdue(now: int) -> Script[list[int]]:
    """The subscribers that somebody should deliver to, and nobody is at."""
    rows = yield Statement(OVERDUE, {"now": now, "ms": 0, "lead_ms": MOST_LEAD_MS})
    return [id for (id,) in rows]


def heads_of(topic_ids: list[int]) -> Script[dict[int, int]]:
    """The heads of those topics that are there."""
    return dict((yield Statement(HEADS, (topic_ids,))))


def due_within(ms: int, now: int) -> Script[int]:
    """How many deliveries are due within so many milliseconds."""
    ((due,),) = yield Statement(DUE_WITHIN, {"now": now, "ms": ms, "lead_ms": MOST_LEAD_MS})
    return int(due)
