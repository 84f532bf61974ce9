"""Autodrop: the oldest queued events go when all queues together hold too much, so that publishing always goes on.

It is for the subscriber that is gone and forgot to unsubscribe: the queue whose oldest event is the oldest of all loses first.
What went is counted, logged, and told to the subscriber with its next batch (`Topics-Dropped`).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from django.conf import settings

from store.script import Script, Statement, atomically, run

log = logging.getLogger(__name__)
MOST, LEAST_FREE = settings.ROUTEMASTER_REDIS_MAX_MEM, settings.ROUTEMASTER_REDIS_MIN_FREE
HIGH_MARK, LOW_MARK = MOST - LEAST_FREE, MOST - 2 * LEAST_FREE
STEP = 1_000  # events that go in one transaction

USED = "SELECT coalesce(sum(bytes), 0)::bigint FROM push_queues"
STALEST = """
SELECT q.client_id, q.queue_id, q.cursor_seq FROM push_queues q
 WHERE q.bytes > 0 ORDER BY q.oldest_ts, q.client_id LIMIT 1
"""
# The subscriber first, then the queue's head: nobody takes them the other way round.
LOCK = "SELECT FROM push_subscriber WHERE client_id = %s FOR NO KEY UPDATE"
LOCK_HEAD = "SELECT FROM topics_topichead WHERE topic_id = %s FOR UPDATE"
# The oldest events above the cursor, as many as hold so many bytes, up to a step.
OLDEST = """
SELECT count(*), coalesce(sum(size), 0)::bigint, max(seq)
  FROM (SELECT seq, size, sum(size) OVER (ORDER BY seq) - size AS before
          FROM push_event(%(queue)s, (SELECT greatest(c.seq, h.floor_seq) + 1
                                        FROM topics_cursor c JOIN topics_topichead h USING (topic_id)
                                       WHERE c.topic_id = %(queue)s AND c.kind = 'subscription'), %(upto)s)) event
 WHERE before < %(bytes)s
"""
# Lost, for whoever reads the queue as a topic; a batch that was made of these is another one from now on (push_take).
TRIM = "SELECT records FROM topic_trim(%s, %s, 'cap')"
NOTE = """
UPDATE push_subscriber SET dropped = dropped + %(events)s, dropped_total = dropped_total + %(events)s WHERE client_id = %(id)s
"""


class Dropped(NamedTuple):
    """What a step dropped, and of whose events."""

    client_id: int
    events: int
    bytes: int


def used_bytes() -> Script[int]:
    """What all queues hold that is not delivered."""
    ((used,),) = yield Statement(USED)
    return int(used)


def autodrop() -> list[Dropped]:
    """Drop until there is room again, if there is too little. Returns what went, step by step."""
    used = run(used_bytes())
    gone: list[Dropped] = []
    if not MOST or used <= HIGH_MARK:
        return gone
    while used > LOW_MARK:
        step = run(drop_stalest(used - LOW_MARK))
        if step is None or not step.events:
            break
        gone.append(step)
        used -= step.bytes
        log.warning("autodrop: subscriber %d lost its %d oldest events, %d bytes", *step)
    return gone


def drop_stalest(bytes: int) -> Script[Dropped | None]:
    """Drop the oldest events of the stalest queue, so many bytes or a step. None: there is none."""
    found = yield Statement(STALEST)
    if not found:
        return None
    ((client_id, queue_id, cursor_seq),) = found
    return (yield from atomically(drop_oldest(client_id, queue_id, cursor_seq + STEP, bytes)))


def drop_oldest(client_id: int, queue_id: int, upto: int, bytes: int) -> Script[Dropped]:
    yield Statement(LOCK, (client_id,))
    yield Statement(LOCK_HEAD, (queue_id,))
    ((events, size, last_seq),) = yield Statement(OLDEST, {"queue": queue_id, "upto": upto, "bytes": bytes})
    if events:
        yield Statement(TRIM, (queue_id, last_seq))
        yield Statement(NOTE, {"events": events, "id": client_id})
    return Dropped(client_id, events, size)
