"""Fills a queue whose events come from several topics (sql/functions/push_fill.sql).

A router fills a queue of one topic like any dest: routers/advance.py advances all routers of a source at once.
"""

from __future__ import annotations

from push.bus.names import QUEUE
from routers import advance
from store.script import Script, Statement
from topics import wake
from topics.cache import CachedTopic

STEP = 1_000  # seqs of each source in one transaction
FILL = "SELECT ordered, queue_head, moved, more FROM push_fill(%s, %s, %s)"


def before_read(topic: CachedTopic, now: int) -> Script[None]:
    """Fills a queue before a read, then calls routers.advance.before_read. A reader of a queue finds all acknowledged events."""
    if topic.name.startswith(QUEUE):
        yield from fill(topic.id, now)
    yield from advance.before_read(topic, now)


def fill(queue_id: int, now: int) -> Script[None]:
    """Brings a queue up to date with all its topics, if the queue merges several topics in order. Otherwise does nothing."""
    more, head = True, 0
    while more:
        ((_, step_head, moved, more),) = yield Statement(FILL, (queue_id, STEP, now), turn=queue_id)
        head = step_head if moved else head
    if head:
        wake.announce(queue_id, head, routed=False)
