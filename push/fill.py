"""Bring a queue whose events come from several topics up to date (sql/push_fill.sql).

A queue of one topic is filled by its router, as any dest is: routers/advance.py moves all routers of a source at once.
"""

from __future__ import annotations

from push.names import QUEUE
from routers import advance
from store.script import Script, Statement
from topics import wake
from topics.cache import CachedTopic

STEP = 1_000  # seqs of each source in one transaction
FILL = "SELECT ordered, queue_head, moved, more FROM push_fill(%s, %s, %s)"


def before_read(topic: CachedTopic, now: int) -> Script[None]:
    """As routers.advance.before_read, which this stands in front of: whoever reads a queue finds all that was acknowledged."""
    if topic.name.startswith(QUEUE):
        yield from fill(topic.id, now)
    yield from advance.before_read(topic, now)


def fill(queue_id: int, now: int) -> Script[None]:
    """Bring the queue up to date with all its topics, if they have to be taken in order."""
    more, head = True, 0
    while more:
        ((_, step_head, moved, more),) = yield Statement(FILL, (queue_id, STEP, now), turn=queue_id)
        head = step_head if moved else head
    if head:
        wake.announce(queue_id, head, routed=False)
