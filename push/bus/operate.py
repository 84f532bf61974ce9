"""Operators' actions on a subscriber: pause, redeliver, skip a batch, send a test event, drop the queue (admin/subscribers.py).

Redelivering, skipping and dropping end the current lease. A batch that is being sent may still arrive, but its outcome changes
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from base.errors import InvalidRequest, NotFound, Outdated
from push.bus.fill import before_read
from push.bus.names import QUEUE
from push.bus.publish import TEST_TOPIC, TEST_URL, Event, rendered
from store.script import Script, Statement, atomically
from topics import audit, wake
from topics.append.appending import append
from topics.append.records import Append, NewRecord, check_rows
from topics.cache import load_topic
from topics.cursors import owned as owned_cursors
from topics.heads import NAMED_HEAD
from topics.read.diff import Diff, read_window, seq_before

LOCK = "SELECT queue, paused FROM push_subscriber WHERE client_id = %s FOR NO KEY UPDATE"
PAUSE = "UPDATE push_subscriber SET paused = %s, retry_ts = 0 WHERE client_id = %s"
# Voids the current lease and the prepared batch.
TAKE_BACK = """
UPDATE push_subscriber
   SET lease = lease + 1, leased_until_ts = 0, retry_ts = 0, batch_id = NULL, batch_first_seq = NULL, batch_last_seq = NULL,
       batch_attempts = 0
 WHERE client_id = %s
"""
BATCH = """
SELECT batch_id, batch_first_seq, batch_last_seq, batch_attempts FROM push_subscriber
 WHERE client_id = %s AND batch_id IS NOT NULL AND batch_attempts > 0
"""
MOST_SHOWN = 100  # events of a batch


class QueuePosition(NamedTuple):
    """The position of delivery in a queue, and the seqs that the queue holds."""

    seq: int
    floor_seq: int
    head_seq: int


class Redelivery(NamedTuple):
    """The place where delivery would continue, after `seq`. `events`: the number of delivered events from there on, which end at
    `delivered_seq`."""

    seq: int
    events: int
    delivered_seq: int


class Batch(NamedTuple):
    """The batch that is being delivered, or that waits for its next attempt."""

    id: str
    first_seq: int
    last_seq: int
    attempts: int


class QueuedEvent(msgspec.Struct):
    """An event of a queue. `data` is its text, because JSON has numbers that Python has not, such as 1e400."""

    seq: int = msgspec.field(name="$seq")
    data: msgspec.Raw

    def excerpt(self, most: int) -> str:
        """Returns the first `most` characters of the event, for people."""
        return bytes(self.data).decode()[:most]


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


def redelivery(queue: str, seq: int | None, ts: int | None, now: int) -> Script[Redelivery]:
    """Returns the result of redeliver() with the same arguments, and changes nothing. Raises InvalidRequest and NotFound."""
    if ts is not None:
        seq = (yield from seq_before(queue, ts, now)) + 1
    found = yield Statement(
        owned_cursors.BEHIND_ONLY, {"topic": queue, "kind": "subscription", "after": max(seq or 1, 1) - 1}
    )
    if not found:
        raise NotFound(f"the queue {queue!r} was deleted")
    again = Redelivery(*found[0])
    if not again.events:
        raise nothing_again(again.delivered_seq)
    return again


def nothing_again(delivered_seq: int) -> InvalidRequest:
    return InvalidRequest(
        f"no event from there on was delivered: delivery has reached seq {delivered_seq}. To skip events, drop the queue"
    )


def redeliver(client_id: int, queue: str, seq: int | None, ts: int | None, now: int) -> Script[Redelivery]:
    """Redelivers from a seq of the queue, or (if `ts` is set) from the first event of that time or later.

    Events that the queue no longer holds are skipped. Delivery never moves forward, because events would then be lost. Raises
    InvalidRequest if nothing from there on was delivered, and NotFound.
    """
    again = yield from redelivery(queue, seq, ts, now)
    yield from atomically(move_locked(client_id, again.seq, now, "redeliver"))
    yield from wake_dispatcher(queue)
    return again


def drop_queue(client_id: int, queue: str, now: int) -> Script[int]:
    """Skips all events that are queued now. Returns the number of skipped seqs. Raises NotFound."""
    topic = yield from load_topic(queue)
    if topic is not None and topic.derived:
        yield from before_read(topic, now)  # events published until now are queued first, then dropped
    before = yield Statement(owned_cursors.LOCATE_ONLY, {"topic": queue, "kind": "subscription"})
    place = yield from atomically(move_locked(client_id, None, now, "drop"))
    return place.seq - max(QueuePosition(*before[0]).seq, place.floor_seq) if before else 0


def current_batch(client_id: int) -> Script[Batch | None]:
    """Returns the batch of the last attempt, or None if it was acknowledged."""
    found = yield Statement(BATCH, (client_id,))
    return Batch(*found[0]) if found else None


def events_of(queue: str, batch: Batch, now: int) -> Script[list[QueuedEvent]]:
    """Returns the first events of a batch. Raises TopicNotFound."""
    wanted = Diff(from_seq=batch.first_seq - 1, limit=MOST_SHOWN)
    _, window = yield from read_window(queue, wanted, now)
    events = msgspec.json.decode(f"[{window.records or ''}]", type=list[QueuedEvent])
    return [each for each in events if each.seq <= batch.last_seq]


def skip(client_id: int, batch_id: str, upto: int, now: int) -> Script[int]:
    """Skips the events of a batch up to a seq. Delivery continues after it, at once. Returns the number of skipped seqs.

    Raises Outdated if another batch is delivered by now, InvalidRequest if the seq is outside the batch, and NotFound.
    """
    queue, skipped = yield from atomically(skip_locked(client_id, batch_id, upto, now))
    yield from wake_dispatcher(queue)
    return skipped


def skip_locked(client_id: int, batch_id: str, upto: int, now: int) -> Script[tuple[str, int]]:
    queue, _ = yield from locked(client_id)
    batch = yield from current_batch(client_id)
    if batch is None or batch.id != batch_id:
        raise Outdated("this batch was acknowledged or replaced meanwhile: look again")
    if not batch.first_seq <= upto <= batch.last_seq:
        raise InvalidRequest(f"the batch has the seqs {batch.first_seq} to {batch.last_seq}")
    yield Statement(TAKE_BACK, (client_id,))
    yield Statement(owned_cursors.SET_ONLY, {"seq": upto, "now": now, "topic": queue, "kind": "subscription"})
    change = {"seq": batch.first_seq - 1}, {"seq": upto, "why": "skip"}
    yield from audit.note("change", "bus", f"subscriber {queue}", *change)
    return queue, upto - batch.first_seq + 1


def move_locked(client_id: int, seq: int | None, now: int, why: str) -> Script[QueuePosition]:
    """Sets the position of delivery back to `seq`, within the seqs that the queue holds, or (None) after all of them."""
    queue, _ = yield from locked(client_id)
    yield Statement(TAKE_BACK, (client_id,))
    found = yield Statement(owned_cursors.LOCK_ONLY, {"topic": queue, "kind": "subscription"})
    if not found:
        raise NotFound(f"the queue {queue!r} was deleted")
    before = QueuePosition(*found[0])
    if seq is not None and seq >= before.seq:  # another operator has moved it back meanwhile
        raise nothing_again(before.seq)
    after = before.head_seq if seq is None else max(seq, before.floor_seq)
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
