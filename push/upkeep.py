"""Deletes old data in bounded steps: both logs of calls after PUSH_LOG_DAYS, delivered events after PUSH_KEEP_DAYS.

Until then, operators can redeliver delivered events. Undelivered events stay, however old (but see autodrop.py).
"""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings

from routers import graph
from store.codec import Arguments
from store.database import changed_rows
from store.script import Script, Statement, atomically, run
from topics.delete.topic import delete_locked
from topics.heads import LOCK_HEAD
from wire.access.keys import DEAD_MS, OPEN

log = logging.getLogger(__name__)
DAY_MS = 86_400_000
LEFT_DAYS = 30  # after an unsubscribe, before undelivered events are deleted
STEP = 5_000  # log lines deleted in one statement

# Uses the index on ts.
DROP_LOG = """
DELETE FROM push_delivery WHERE id IN (SELECT id FROM push_delivery WHERE ts < %s ORDER BY ts LIMIT %s)
"""
# Queues with delivered events older than a time, and the last seq of these events.
DELIVERED = """
SELECT * FROM (
    SELECT h.topic_id, least(c.seq, topic_seq_at(h.topic_id, h.floor_seq, h.head_seq, %s) - 1) AS upto, h.floor_seq
      FROM push_subscriber s JOIN topics_topic t ON t.name = s.queue JOIN topic_heads h ON h.topic_id = t.id
      JOIN topic_cursors c ON c.topic_id = t.id AND c.kind = 'subscription'
     WHERE c.seq > h.floor_seq) queue
 WHERE upto > floor_seq
"""
TRIM = "SELECT records FROM topic_trim(%(queue)s, topic_step_end(%(queue)s, %(upto)s), 'delete')"
# Subscribers that unsubscribed before a time, and whose events are all delivered. After a longer time, nobody takes the others.
LEFT = """
SELECT s.client_id, s.queue, q.records FROM push_subscriber s JOIN push_queues q ON q.client_id = s.client_id
 WHERE s.unsubscribed_ts < %(kept)s AND (q.records = 0 OR s.unsubscribed_ts < %(given_up)s)
"""
# The tags of a subscriber's counters end with its id (reports/metrics.py). A process can write a count after the subscriber was
# deleted, so this looks at all counters, which a report reads every ten seconds. In the order in which others add to the
# counters, because another order could deadlock.
FORGET_COUNTERS = """
DELETE FROM push_counter WHERE id = ANY (ARRAY(
    SELECT id FROM push_counter
     WHERE substring(tags FROM '(?:queue:|subscriber:[^.]*\\.)([0-9]+)$')::bigint NOT IN (SELECT client_id FROM push_subscriber)
        OR (name = 'events.published' AND substr(tags, length('topic:') + 1) NOT IN (SELECT name FROM push_bustopic))
     ORDER BY name, tags FOR UPDATE))
"""
# A deleted token that is created again restores its client with its topics and its subscription. These clients have neither.
FORGET_CLIENTS = """
DELETE FROM push_busclient client
 WHERE deleted_ts < %s
   AND NOT EXISTS (SELECT FROM push_subscriber WHERE client_id = client.id)
   AND NOT EXISTS (SELECT FROM push_bustopic WHERE publisher_id = client.id)
"""
# Reads the rows with the lowest ids alone, by the primary key: they are the oldest.
DROP_WEBHOOK_LOG = """
DELETE FROM push_webhooklog
 WHERE id IN (SELECT id FROM push_webhooklog WHERE ts < %(before)s AND id < %(limit)s + (SELECT min(id) FROM push_webhooklog))
"""
# SKIP LOCKED leaves out a record that a settle holds, because a settle deletes many.
DROP_FAILED = """
DELETE FROM push_webhookfailed
 WHERE (webhook_id, topic_id, seq) IN (SELECT webhook_id, topic_id, seq FROM push_webhookfailed
                                         WHERE ts < %s ORDER BY ts LIMIT %s FOR UPDATE SKIP LOCKED)
"""
FORGET_LOG = "DELETE FROM push_delivery WHERE subscriber_id = %s"
FORGET = "DELETE FROM push_subscriber WHERE client_id = %s AND unsubscribed_ts IS NOT NULL RETURNING queue"


def drop_old_deliveries(now: int, limit: int = STEP) -> int:
    """Deletes old lines of the delivery log. Returns how many: at most `limit`."""
    return changed_rows(DROP_LOG, [now - settings.PUSH_LOG_DAYS * DAY_MS, limit])


def drop_old_calls(now: int, limit: int = STEP) -> int:
    """Deletes old rows of the log of webhooks. Returns how many: at most `limit`."""
    return changed_rows(DROP_WEBHOOK_LOG, {"before": now - settings.PUSH_LOG_DAYS * DAY_MS, "limit": limit})


def drop_old_failed(now: int, limit: int = STEP) -> int:
    """Deletes notes of records that webhooks gave up long ago. Returns how many: at most `limit`."""
    return changed_rows(DROP_FAILED, [now - settings.PUSH_LOG_DAYS * DAY_MS, limit])


def trim_delivered(now: int) -> int:
    """Deletes events that were delivered long ago. Returns the number of trimmed queues."""
    queues = run(rows(DELIVERED, (now - settings.PUSH_KEEP_DAYS * DAY_MS,)))
    for queue_id, upto, _ in queues:
        while run(atomically(trim(queue_id, upto))):
            pass
    return len(queues)


def forget_left(now: int) -> int:
    """Deletes subscribers that unsubscribed long ago, with their queues and counters. Returns how many subscribers."""
    kept, given_up = (
        now - days * DAY_MS for days in (settings.PUSH_KEEP_DAYS, max(settings.PUSH_KEEP_DAYS, LEFT_DAYS))
    )
    left = run(rows(LEFT, {"kept": kept, "given_up": given_up}))
    for client_id, queue, records in left:
        if records:
            log.warning(
                "Deleted the queue %s with %d events: its subscriber left %d days ago", queue, records, LEFT_DAYS
            )
        run(atomically(forget(client_id, now)))
    changed_rows(FORGET_COUNTERS)
    return len(left)


def forget_clients(now: int) -> int:
    """Deletes clients with a token that was deleted long ago, if they have no topic and no subscription. Returns how many."""
    return changed_rows(FORGET_CLIENTS, [now - DEAD_MS])


def forget(client_id: int, now: int) -> Script[None]:
    """Deletes a subscriber, unless the client has subscribed again. While the graph is locked, no client can subscribe."""
    yield from graph.lock_graph()
    yield Statement(FORGET_LOG, (client_id,))
    for (queue,) in (yield Statement(FORGET, (client_id,))):
        yield from delete_locked(queue, False, now, OPEN)


def rows(statement: str, arguments: Arguments) -> Script[list[Any]]:
    found: list[Any] = yield Statement(statement, arguments)
    return found


def trim(queue_id: int, upto: int) -> Script[int]:
    """Deletes events up to a seq, in a queue with many events a step. Returns their number: 0 if no event is left."""
    yield Statement(LOCK_HEAD, (queue_id,))
    return sum(records for (records,) in (yield Statement(TRIM, {"queue": queue_id, "upto": upto})))
