"""Append records to a topic: plainly, under conditions, or as the first append of a new topic.

Appends that arrive together in an event loop share a transaction (write.py, judged.py, first.py). An append that creates its
topic and may be refused has a transaction of its own.
"""

from __future__ import annotations

import time
from typing import Any

from base.errors import InvalidRequest
from store.script import Script, Statement, atomically
from topics import limits, wake
from topics.cache import CachedTopic, absent, as_known, forget_known, known_topic
from topics.config import create_topic, insert_topic
from topics.first import append_first
from topics.insert import Appended
from topics.judged import AtHead, append_once, judge
from topics.models import Topic
from topics.records import Append, Rows
from topics.write import Write

# By the primary key, in which the prefix is a range: no character sorts behind the last one of Unicode. A row of NULL says that
# the topic remembers no such key, and no row that it is another than the one we knew.
LAST_KEYED = """
SELECT key, first_seq, last_seq, ts
  FROM topics_topichead head
  LEFT JOIN LATERAL (SELECT * FROM topics_idempotencykey
                      WHERE topic_id = head.topic_id AND key >= %s AND key < %s AND ts + 0 > %s
                      ORDER BY last_seq DESC LIMIT 1) kept ON true
 WHERE head.topic_id = %s AND head.version = %s
"""


def append(name: str, wanted: Append, rows: Rows, now: int) -> Script[Appended]:
    """Append, creating the topic when it is absent and may be created.

    Raises TopicNotFound, HeadMismatch, IdempotencyMismatch, TopicSealed, TopicFull, InvalidRequest, Throttled or NotReady: then
    nothing was appended.
    """
    if limits.MOST_TOTAL_BYTES:
        yield from limits.check_total_bytes(rows.bytes)
    while True:
        topic = yield from known_topic(name)
        done: Appended | None
        if topic is None:
            done = yield from create_and_append(name, wanted, rows, now)
        elif wanted.plain and not topic.judges:
            done = yield Write(topic, rows, now)
        else:
            done = None
            if wanted.idempotency_key is None and not topic.judges:
                done = yield AtHead(topic, wanted, rows, now)
            if done is None:
                done = yield from judge(topic, wanted, rows, now)
        if done is not None:
            return done
        forget_known(topic)  # somebody configured, deleted or created it since we looked


def create_and_append(name: str, wanted: Append, rows: Rows, now: int) -> Script[Appended | None]:
    """An append to a topic that is not there. Raises TopicNotFound where it may not be created."""
    if not wanted.create:
        raise absent(name)
    if wanted.plain and wanted.config is None:
        return (yield from append_first(name, rows, now))
    fields = wanted.config.fields() if wanted.config else {}
    if fields.get("sealed"):
        raise InvalidRequest(
            "an append cannot create a sealed topic: leave sealed out, or create it with a PUT", field="sealed"
        )
    if wanted.expected_head is not None or fields.get("discard") == Topic.Discard.REJECT:
        # It may yet be refused, and must leave no topic behind then.
        return (yield from create_judged(name, wanted, rows, now))
    # Two steps, each of which many requests share: the second makes room, or keeps a key. Should we die between them, an empty
    # topic is there, and the client, who has no answer, sends the append again.
    created = yield from create_topic(name, fields, now, noted=False)
    done = yield from append(name, wanted, rows, now)
    return done._replace(created=created or done.created)


def create_judged(name: str, wanted: Append, rows: Rows, now: int) -> Script[Appended | None]:
    """Create the topic and append in one transaction, so that a refused append leaves no topic behind. None: the topic exists."""
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
    """Sends a wake-up for the topic. Returns the append with the time that its commit waited for the disk."""
    wake.moved(topic, done.last_seq)
    whole_ms = (time.perf_counter() - started) * 1000
    return done._replace(fsync_ms=whole_ms - done.wal_append_ms) if topic.durability == "fsync" else done


def last_keyed(name: str, prefix: str, now: int) -> Script[tuple[bool, tuple[str, int, int, int] | None]]:
    """Whether the topic is sealed, and the last append under a key that begins so and is remembered.

    Of an append: key, first_seq, last_seq, ts. Raises TopicNotFound.
    """

    def look(topic: CachedTopic) -> Script[tuple[bool, tuple[Any, ...]] | None]:
        since = now - topic.idempotency_window_ms
        wanted = (prefix, prefix + chr(0x10FFFF), since, topic.id, topic.version)
        rows = yield Statement(LAST_KEYED, wanted, quick=True)
        return (topic.sealed, rows[0]) if rows else None

    is_sealed, (key, *rest) = yield from as_known(name, look)
    return is_sealed, None if key is None else (key, *rest)
