"""Figures of subscribers of the bus for operators: those of a list, and of one its log of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from push.webhooks.figures import MOST_CALLS, LastCalls
from store.script import Script, Statement

STATE = """
CASE WHEN s.paused THEN 'paused' WHEN s.unsubscribed_ts IS NOT NULL THEN 'unsubscribed'
     WHEN s.last_error IS NOT NULL THEN 'failing' ELSE 'running' END
"""
FOLLOWING = f"""
SELECT s.queue FROM push_subscriber s
 WHERE s.queue > %(after)s AND s.queue < %(upto)s AND (%(state)s = '' OR {STATE} = %(state)s)
 ORDER BY s.queue LIMIT %(most)s
"""
NAMED = f"""
SELECT s.client_id, c.name, s.queue, {STATE}, s.health, s.sent_total, s.last_error, s.last_delivery_ts, q.queue_id, q.records,
       q.bytes, q.oldest_ts
  FROM push_subscriber s JOIN push_busclient c ON c.id = s.client_id JOIN push_queues q ON q.client_id = s.client_id
 WHERE s.queue = ANY (%s::text[])
"""
PAGE = """
SELECT id, ts, batch_id, attempt, status, error, round(duration_ms)::bigint, events, first_seq, last_seq FROM push_delivery
 WHERE subscriber_id = %(subscriber)s AND id < %(before)s AND ts >= %(from_ts)s
   AND (%(outcome)s = '' OR (error IS NULL) = (%(outcome)s = 'delivered'))
 ORDER BY id DESC LIMIT %(limit)s
"""
CALLS = """
SELECT count(*), count(error), percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ms)::bigint,
       percentile_disc(0.99) WITHIN GROUP (ORDER BY duration_ms)::bigint
  FROM (SELECT error, duration_ms FROM push_delivery WHERE subscriber_id = %(subscriber)s ORDER BY id DESC LIMIT %(most)s) last
"""


class ListedSubscriber(NamedTuple):
    """A subscriber. `records`, `bytes` and `oldest_ts`: of its queued events."""

    id: int
    client: str
    queue: str
    state: str
    health: int
    sent: int
    last_error: str | None
    last_delivery_ts: int | None
    queue_id: int | None
    records: int
    bytes: int
    oldest_ts: int | None


class LoggedAttempt(NamedTuple):
    """A row of the log. `error`: None if the subscriber acknowledged. `first_seq`, `last_seq`: of the batch in its queue."""

    id: int
    ts: int
    batch: str
    attempt: int
    status: int | None
    error: str | None
    ms: int
    events: int
    first_seq: int | None
    last_seq: int | None


def following(after: str, upto: str, state: str, most: int) -> Script[list[str]]:
    """Returns the queues of the next subscribers, which are below `upto`. `state`: only these, or all."""
    rows = yield Statement(FOLLOWING, {"after": after, "upto": upto, "state": state, "most": most})
    return [queue for (queue,) in rows]


def named(queues: Sequence[str]) -> Script[list[ListedSubscriber]]:
    """Returns the subscribers of those of these queues that have one."""
    return [ListedSubscriber(*row) for row in (yield Statement(NAMED, (list(queues),)))]


def page_of_attempts(id: int, outcome: str, from_ts: int, before: int, limit: int) -> Script[list[LoggedAttempt]]:
    """Returns the newest attempts with an id below `before`. `outcome`: delivered, failed, or all."""
    given = {"subscriber": id, "outcome": outcome, "from_ts": from_ts, "before": before, "limit": limit}
    return [LoggedAttempt(*row) for row in (yield Statement(PAGE, given))]


def last_calls(id: int) -> Script[LastCalls]:
    """Returns the figures of the last attempts."""
    rows = yield Statement(CALLS, {"subscriber": id, "most": MOST_CALLS})
    return LastCalls(*rows[0])
