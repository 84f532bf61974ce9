"""Dead letters: a job that was delivered too often moves to the queue's `dead_letter` topic (docs/queues.md)."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from base.bounds import LETTER_DELIVERIES, LETTER_ERROR, LETTER_FROM, LETTER_SEQ, LETTER_STAMP
from base.errors import Incompatible, TopicsError
from queues.rows import as_rows
from store.script import Script, Statement, atomically
from topics import wake
from topics.append.judged import append_once
from topics.append.records import Append, Rows
from topics.append.statements import SYNC, array
from topics.cache import CachedTopic, forget_known, known_topic
from topics.config import create_topic
from topics.heads import LOCK_HEADS

log = logging.getLogger(__name__)
SPENT = "SELECT seq, node, tag, meta, data, deliveries, error FROM queue_spent(%s, %s, %s, %s, %s, %s::bigint[])"
DROP = "SELECT queue_drop(%s, %s, %s, %s, %s, %s::bigint[])"


def bury(topic: CachedTopic, seqs: list[int], now: int, at: int | None) -> Script[None]:
    """Moves jobs that a claim set aside to the dead letter topic, and creates this topic if it is absent.

    If the topic takes no records, the jobs stay in the queue, and a claim tries again after a minute.
    """
    assert topic.dead_letter is not None
    while True:
        dest = yield from known_topic(topic.dead_letter)
        try:
            if dest is None:
                yield from create_topic(topic.dead_letter, {}, now, noted=True)
                continue
            head = yield from atomically(move(topic, dest, seqs, now, at), topic.id)
        except TopicsError as error:
            log.warning(
                "Could not move %d jobs of queue %s to its dead letter topic %s: %s. The next try follows in a minute",
                len(seqs), topic.name, topic.dead_letter, error.message,
            )  # fmt: skip
            return
        if head is not None:
            if head:
                wake.moved(dest, head)
            return
        forget_known(dest)


def move(topic: CachedTopic, dest: CachedTopic, seqs: list[int], now: int, at: int | None) -> Script[int | None]:
    """Appends the jobs to `dest` and deletes them, in one transaction. Returns the head of `dest`, 0 if no job was left.

    Returns None if `dest` has another version. Raises Outdated if the queue has, and Incompatible if `dest` is unsuitable.
    """
    if dest.unique_tags:
        raise Incompatible("the topic has unique_tags, so letters of one tag would be lost: choose another dead_letter")
    known = (topic.id, topic.version, topic.leases_durable, at, topic.expired_ts(now))
    found = yield Statement(SPENT, (*known, array(seqs)))
    if not found:
        return 0
    # The delete of the jobs and the append both lock a head. All statements lock heads in this order.
    yield Statement(LOCK_HEADS, (array([topic.id, dest.id]),))
    done = yield from append_once(dest, Append(records=[]), dead_letters(topic.name, found), now)
    if done is None:
        return None
    yield Statement(SYNC, ("on",))  # the jobs must not be lost on their way
    yield Statement(DROP, (*known, array([row[0] for row in found])))
    return done.last_seq


def dead_letters(queue: str, found: Any) -> Rows:
    """Returns the jobs as records of the dead letter topic. The data stays as it was sent, and meta gets more fields."""
    metas = []
    for seq, _, _, meta, _, deliveries, error in found:
        stamp = {LETTER_FROM: queue, LETTER_DELIVERIES: deliveries, LETTER_SEQ: seq}
        metas.append(stamped(meta, stamp if error is None else stamp | {LETTER_ERROR: error}))
    return as_rows(found, metas)


def stamped(meta: str | None, stamp: dict[str, Any]) -> msgspec.Raw:
    """Returns meta with the fields of the stamp, which replace those of an earlier move. Other fields keep their text."""
    fields = msgspec.json.decode(meta or b"{}", type=dict[str, msgspec.Raw])
    # The stamp of a router stays the last field (topics/read/stamps.py).
    others = {name: value for name, value in fields.items() if name not in LETTER_STAMP}
    return msgspec.Raw(msgspec.json.encode({**stamp, **others}))
