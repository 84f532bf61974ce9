"""Operators' actions on a subscriber: pause, redeliver, send a test event, drop the queue (admin/subscribers.py).

Redelivering and dropping end the current lease. A batch that is being sent may still arrive, but its outcome changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from base.errors import NotFound
from push.fill import before_read
from push.names import QUEUE
from push.publish import TEST_TOPIC, TEST_URL, Event, rendered
from store.script import Script, Statement, atomically
from topics import audit, owned_cursors, wake
from topics.append import append
from topics.cache import load_topic
from topics.diff import seq_before
from topics.heads import NAMED_HEAD
from topics.records import Append, NewRecord, check_rows

LOCK = "SELECT queue, paused FROM push_subscriber WHERE client_id = %s FOR NO KEY UPDATE"
PAUSE = "UPDATE push_subscriber SET paused = %s, retry_ts = 0 WHERE client_id = %s"
# Voids the current lease and the prepared batch.
TAKE_BACK = """
UPDATE push_subscriber
   SET lease = lease + 1, leased_until_ts = 0, retry_ts = 0, batch_id = NULL, batch_first_seq = NULL, batch_last_seq = NULL,
       batch_attempts = 0
 WHERE client_id = %s
"""


class QueuePosition(NamedTuple):
    """The position of delivery in a queue, and the seqs that the queue holds."""

    seq: int
    floor_seq: int
    head_seq: int


def set_paused(client_id: int, paused: bool) -> Script[None]:
    """Pauses or resumes deliveries to a subscriber. Raises NotFound."""
    queue = yield from atomically(set_paused_locked(client_id, paused))
    yield from wake_dispatcher(queue)


def set_paused_locked(client_id: int, paused: bool) -> Script[str]:
    queue, before = yield from locked(client_id)
    yield Statement(PAUSE, (paused, client_id))
    yield from audit.note_difference("bus", f"subscriber {queue}", {"paused": before}, {"paused": paused})
    return queue


def locked(client_id: int) -> Script[tuple[str, bool]]:
    """Locks a subscriber until the transaction ends. Returns the queue, and whether the subscriber is paused. Raises NotFound."""
    found = yield Statement(LOCK, (client_id,))
    if not found:
        raise NotFound("this subscriber does not exist")
    queue, paused = found[0]
    return queue, paused


def wake_dispatcher(queue: str) -> Script[None]:
    """Wakes a worker for this queue."""
    found = yield Statement(NAMED_HEAD, (queue,))
    for topic_id, head_seq in found:
        wake.announce(topic_id, head_seq, routed=False)


def redeliver(client_id: int, queue: str, seq: int | None, ts: int | None, now: int) -> Script[QueuePosition]:
    """Redelivers from a seq of the queue, or (if `ts` is set) from the first event of that time or later.

    Returns the new position. Events that the queue no longer holds are skipped. Raises NotFound.
    """
    if ts is not None:
        seq = (yield from seq_before(queue, ts, now)) + 1
    place = yield from atomically(move_locked(client_id, max(seq or 1, 1) - 1, now, "redeliver"))
    yield from wake_dispatcher(queue)
    return place


def drop_queue(client_id: int, queue: str, now: int) -> Script[int]:
    """Skips all events that are queued now. Returns the number of skipped seqs. Raises NotFound."""
    topic = yield from load_topic(queue)
    if topic is not None and topic.derived:
        yield from before_read(topic, now)  # events published until now are queued first, then dropped
    before = yield Statement(owned_cursors.LOCATE_ONLY, {"topic": queue, "kind": "subscription"})
    place = yield from atomically(move_locked(client_id, None, now, "drop"))
    return place.seq - max(QueuePosition(*before[0]).seq, place.floor_seq) if before else 0


def move_locked(client_id: int, seq: int | None, now: int, why: str) -> Script[QueuePosition]:
    """Sets the position of delivery to `seq`, within the seqs that the queue holds, or (None) after all of them."""
    queue, _ = yield from locked(client_id)
    yield Statement(TAKE_BACK, (client_id,))
    found = yield Statement(owned_cursors.LOCK_ONLY, {"topic": queue, "kind": "subscription"})
    if not found:
        raise NotFound(f"the queue {queue!r} was deleted")
    before = QueuePosition(*found[0])
    after = before.head_seq if seq is None else max(min(seq, before.head_seq), before.floor_seq)
    yield Statement(owned_cursors.SET_ONLY, {"seq": after, "now": now, "topic": queue, "kind": "subscription"})
    change = {"seq": before.seq}, {"seq": after, "why": why}
    yield from audit.note("change", "bus", f"subscriber {queue}", *change)
    return before._replace(seq=after)


def send_test(queue: str, now: int) -> Script[None]:
    """Queues a test event. Raises NotFound."""
    event = Event("noop", TEST_URL + queue.removeprefix(QUEUE))
    wanted = Append([NewRecord(msgspec.Raw(rendered(TEST_TOPIC, event, now)))], create=False)
    yield from append(queue, wanted, check_rows(wanted), now)
    yield from wake_dispatcher(queue)
