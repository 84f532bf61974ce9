"""Autodrop: deletes the oldest queued events if all queues together hold too many bytes, so that clients can keep publishing.

Autodrop is for subscribers that stopped reading and did not unsubscribe: the queue with the oldest event of all loses first.
Dropped events are counted and logged. The subscriber's next batch reports the number (`Topics-Dropped`).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from django.conf import settings

from base.errors import NotReady, StorageFull
from store.script import Script, Statement, atomically, run
from topics.heads import LOCK_HEAD

log = logging.getLogger(__name__)
MOST, LEAST_FREE = settings.ROUTEMASTER_REDIS_MAX_MEM, settings.ROUTEMASTER_REDIS_MIN_FREE
HIGH_MARK, LOW_MARK = MOST - LEAST_FREE, MOST - 2 * LEAST_FREE
STEP = 1_000  # events dropped in one transaction

USED = "SELECT coalesce(sum(bytes), 0)::bigint FROM push_queues"
STALEST = """
SELECT q.client_id, q.queue_id, c.name || '.' || c.id FROM push_queues q JOIN push_busclient c ON c.id = q.client_id
 WHERE q.bytes > 0 AND q.client_id <> ALL (%s) ORDER BY q.oldest_ts, q.client_id LIMIT 1
"""
# Locks the subscriber first, then the queue's head. No other code locks them in the opposite order.
LOCK = "SELECT FROM push_subscriber WHERE client_id = %s FOR NO KEY UPDATE"
FIRST = """
SELECT topic_first_live(h.topic_id, greatest(c.seq, h.floor_seq))
  FROM topic_cursors c JOIN topic_heads h USING (topic_id) WHERE c.topic_id = %s AND c.kind = 'subscription'
"""
# The oldest records above the cursor that together hold %(bytes)s, at most a step. Reads only sizes, because data may be damaged.
OLDEST = """
SELECT count(*), coalesce(sum(size), 0)::bigint, max(seq)
  FROM (SELECT seq, size, sum(size) OVER (ORDER BY seq) - size AS before FROM push_queued(%(queue)s, %(first)s, %(upto)s)) event
 WHERE before < %(bytes)s
"""
# Readers of the queue as a topic get a tombstone. If a prepared batch contained these records, push_batch makes a new batch.
TRIM = "SELECT records FROM topic_trim(%s, %s, 'cap')"
NOTE = """
UPDATE push_subscriber SET dropped = dropped + %(events)s, dropped_total = dropped_total + %(events)s WHERE client_id = %(id)s
"""


class Dropped(NamedTuple):
    """The events and bytes that one step dropped, and their subscriber."""

    client_id: int
    events: int
    bytes: int


def used_bytes() -> Script[int]:
    """Returns the bytes of the undelivered events of all queues."""
    ((used,),) = yield Statement(USED)
    return int(used)


def autodrop() -> list[Dropped]:
    """Drops events until there is enough room again, if there is too little. Returns the steps that dropped events."""
    used = run(used_bytes())
    gone: list[Dropped] = []
    if not MOST or used <= HIGH_MARK:
        return gone
    spared: list[int] = []  # subscribers whose step dropped nothing
    while used > LOW_MARK:
        stalest = run(find_stalest(spared))
        if stalest is None:
            break
        client_id, queue_id, name = stalest
        step = drop_step(client_id, queue_id, name, used - LOW_MARK)
        if not step.events:
            spared.append(step.client_id)
            continue
        gone.append(step)
        used -= step.bytes
        log.warning("Autodrop deleted events of subscriber %s: its %d oldest, %d bytes", name, step.events, step.bytes)
    return gone


def find_stalest(spared: list[int]) -> Script[tuple[int, int, str] | None]:
    """Returns the subscriber with the oldest event of all, its queue's id and its name, or None if no other has events."""
    found = yield Statement(STALEST, (spared,))
    return found[0] if found else None


def drop_step(client_id: int, queue_id: int, name: str, bytes: int) -> Dropped:
    """Drops the oldest events of a queue: `bytes`, or a step. A faulty queue drops nothing, and other queues have to."""
    try:
        return run(atomically(drop_oldest(client_id, queue_id, bytes)))
    except (NotReady, StorageFull):
        raise
    except Exception:
        log.exception("Autodrop skipped the queue of subscriber %s, which failed", name)
        return Dropped(client_id, 0, 0)


def drop_oldest(client_id: int, queue_id: int, bytes: int) -> Script[Dropped]:
    yield Statement(LOCK, (client_id,))
    yield Statement(LOCK_HEAD, (queue_id,))
    first = yield Statement(FIRST, (queue_id,))
    if not first or first[0][0] is None:
        return Dropped(client_id, 0, 0)
    span = {"first": first[0][0], "upto": first[0][0] + STEP - 1}
    ((events, size, last_seq),) = yield Statement(OLDEST, {"queue": queue_id, "bytes": bytes, **span})
    if events:
        yield Statement(TRIM, (queue_id, last_seq))
        yield Statement(NOTE, {"events": events, "id": client_id})
    return Dropped(client_id, events, size)
