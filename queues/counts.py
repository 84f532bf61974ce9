"""The figures of a queue, and the removal of its rows with its topic."""

from __future__ import annotations

from typing import Any

from store.script import Script, Statement, atomically
from topics.cache import CachedTopic
from topics.hooks import JobCounts

COUNTS = "SELECT ready, in_flight, dead_lettered, delayed, oldest_ready_ms FROM queue_counts(%s, %s, %s, %s)"
FORGET = "SELECT queue_forget(%s, %s, %s, %s)"
# Each statement finds its rows by an index. The first one locks out claims of the queue.
DROP = (
    "DELETE FROM queues_queue WHERE topic_id = %s",
    "DELETE FROM queues_lease WHERE topic_id = %s",
    "DELETE FROM queues_moved WHERE topic_id = %s",
)
# Those who write these rows hold the head, so a delete that has the head finds all of them. A schedule without its topic would be
# due for ever.
DROP_SCHEDULES = ("DELETE FROM queues_schedule WHERE topic_id = %s", "DELETE FROM queues_done WHERE topic_id = %s")


def count_jobs(topic: CachedTopic, now: int, at: int | None = None) -> Script[JobCounts | None]:
    """Returns the figures of a queue, or None if the topic has another version. `at`: as in a claim."""
    rows = yield Statement(COUNTS, (topic.id, topic.version, at, topic.expired_ts(now)), quick=True)
    return JobCounts(*rows[0]) if rows else None


def forget_deleted(topic: CachedTopic, now: int) -> Script[None]:
    """Ends the leases of jobs that a client deleted."""
    known = (topic.id, topic.version, topic.leases_durable, topic.expired_ts(now))
    yield from atomically(forget(known), topic.id)


def forget(known: tuple[Any, ...]) -> Script[None]:
    yield Statement(FORGET, known)


def drop(topic_id: int) -> Script[None]:
    """Deletes the rows of a queue, in the transaction that deletes its topic. It does not hold the head yet."""
    for statement in DROP:
        yield Statement(statement, (topic_id,))


def drop_schedules(topic_id: int) -> Script[None]:
    """Deletes the schedules of a queue, in the same transaction, which holds the head now."""
    for statement in DROP_SCHEDULES:
        yield Statement(statement, (topic_id,))
