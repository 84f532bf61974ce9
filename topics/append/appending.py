"""Append records to a topic: plainly, under conditions, or as the first append of a new topic.

Appends that arrive together in an event loop share a transaction (plain.py, judged.py, first.py). An append that creates a
topic and can be refused has its own transaction.
"""

from __future__ import annotations

import time
from typing import Any

from base.errors import InvalidRequest
from store.script import Script, Statement, atomically
from topics import limits, wake
from topics.append.doubles import check_numbers, takes
from topics.append.first import append_first
from topics.append.judged import AtHead, append_once, judge
from topics.append.plain import Write
from topics.append.records import Append, Rows
from topics.append.statements import Appended
from topics.cache import CachedTopic, absent, as_known, forget_known, known_topic
from topics.config import create_topic, insert_topic
from topics.hooks import hooks
from topics.models import Topic

# Uses the primary key, in which a prefix is a range: no character sorts behind the last character of Unicode. A row of NULLs
# means that the topic remembers no such key. No row means that the topic has another version.
LAST_KEYED = """
SELECT key, first_seq, last_seq, ts
  FROM topics_topichead head
  LEFT JOIN LATERAL (SELECT * FROM topics_idempotencykey
                      WHERE topic_id = head.topic_id AND key >= %s AND key < %s AND ts + 0 > %s
                      ORDER BY last_seq DESC LIMIT 1) kept ON true
 WHERE head.topic_id = %s AND head.version = %s
"""


def append(name: str, wanted: Append, rows: Rows, now: int) -> Script[Appended]:
    """Appends the records. Creates the topic if the topic is absent and `wanted` allows this.

    Raises TopicNotFound, HeadMismatch, IdempotencyMismatch, TopicSealed, TopicFull, InvalidRequest, Throttled or NotReady. Then
    nothing was appended.
    """
    hooks.value.check_records(name, rows.data)
    if limits.MOST_TOTAL_BYTES:
        yield from limits.check_total_bytes(rows.bytes)
    while True:
        topic = yield from known_topic(name)
        done: Appended | None
        if topic is None:
            done = yield from create_and_append(name, wanted, rows, now)
        elif topic.takes_doubles and not (yield from takes(topic, rows)):
            done = None
        elif wanted.plain and not topic.judges:
            done = yield Write(topic, rows, now)
        else:
            done = None
            if not wanted.keyed and not topic.judges:
                done = yield AtHead(topic, wanted, rows, now)
            if done is None:
                done = yield from judge(topic, wanted, rows, now)
        if done is not None:
            return done
        forget_known(topic)  # the topic was configured, deleted or created after the look-up


def create_and_append(name: str, wanted: Append, rows: Rows, now: int) -> Script[Appended | None]:
    """Creates an absent topic and appends to it. Returns None if the caller must look up the topic again.

    Raises TopicNotFound if `wanted` does not allow the creation of the topic.
    """
    if not wanted.create:
        raise absent(name)
    if wanted.plain and wanted.config is None:
        return (yield from append_first(name, rows, now))
    fields = wanted.config.fields() if wanted.config else {}
    if fields.get("sealed"):
        raise InvalidRequest(
            "an append cannot create a sealed topic: leave sealed out, or create it with a PUT", field="sealed"
        )
    if fields.get("numbers") == Topic.Numbers.DOUBLE:
        check_numbers(rows)
    if wanted.expected_head is not None or fields.get("discard") == Topic.Discard.REJECT:
        # The append can still be refused, and must then leave no topic behind.
        return (yield from create_judged(name, wanted, rows, now))
    # Many requests share each of these two steps. The second step makes room or keeps a key. If the process dies between the
    # steps, an empty topic is left. The client got no answer, and sends the append again.
    created = yield from create_topic(name, fields, now, noted=False)
    done = yield from append(name, wanted, rows, now)
    return done._replace(created=created or done.created)


def create_judged(name: str, wanted: Append, rows: Rows, now: int) -> Script[Appended | None]:
    """Creates the topic and appends in one transaction: a refused append leaves no topic. Returns None if the topic exists."""
    started = time.perf_counter()
    found = yield from atomically(create_judged_once(name, wanted, rows, now), name)
    return None if found is None else committed(*found, started)


def create_judged_once(name: str, wanted: Append, rows: Rows, now: int) -> Script[tuple[CachedTopic, Appended] | None]:
    topic = yield from insert_topic(name, wanted.config.fields() if wanted.config else {}, now)
    if topic is None:
        return None
    done = yield from append_once(topic, wanted, rows, now)
    return None if done is None else (topic, done._replace(created=True))


def committed(topic: CachedTopic, done: Appended, started: float) -> Appended:
    """Sends a wake-up for the topic. Returns the append with the time that the commit waited for the disk."""
    wake.moved(topic, done.last_seq)
    whole_ms = (time.perf_counter() - started) * 1000
    return done._replace(fsync_ms=whole_ms - done.wal_append_ms) if topic.durability == "fsync" else done


def last_keyed(name: str, prefix: str, now: int) -> Script[tuple[bool, tuple[str, int, int, int] | None]]:
    """Returns whether the topic is sealed, and the last remembered append whose key starts with `prefix`.

    The append is a tuple (key, first_seq, last_seq, ts), or None if the topic remembers no such key. Raises TopicNotFound.
    """

    def look(topic: CachedTopic) -> Script[tuple[bool, tuple[Any, ...]] | None]:
        since = now - topic.idempotency_window_ms
        wanted = (prefix, prefix + chr(0x10FFFF), since, topic.id, topic.version)
        rows = yield Statement(LAST_KEYED, wanted, quick=True)
        return (topic.sealed, rows[0]) if rows else None

    is_sealed, (key, *rest) = yield from as_known(name, look)
    return is_sealed, None if key is None else (key, *rest)
