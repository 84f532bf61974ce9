"""Append records to a topic: plainly, or after a look (an idempotency key, an expected head, a cap, a topic to create).

Appends that arrive together in an event loop share a transaction (write.py, conditional.py, first.py). An append that has to look
before it writes has a transaction of its own.
"""

from __future__ import annotations

import time
from typing import Any

from base.errors import HeadMismatch, IdempotencyMismatch, InvalidRequest, TopicFull
from store.script import Script, Statement, atomically
from topics import limits, sealed, wake
from topics.cache import CachedTopic, absent, as_known, forget_known, known_topic
from topics.conditional import AtHead, Unless
from topics.config import create_topic, insert_topic
from topics.first import append_first
from topics.insert import MAKE_ROOM, SYNC, Appended, appending, room
from topics.models import Topic
from topics.records import Append, Rows
from topics.write import Write

EXPIRE = "SELECT topic_expire(%s, %s)"
LOCK_AND_LOOK = """
SELECT head_seq, count, bytes FROM topics_topichead WHERE topic_id = %s AND version = %s FOR UPDATE
"""
# The head's lock is held, so of two racing retries the second sees the first's key. By the primary key (`+ 0`: never by the index
# on the age, which would find every key that is new enough). Of an append from before there were digests
# nobody knows what it carried.
FIND_KEY = """
SELECT first_seq, last_seq, digest IS NULL OR digest = %s::bytea FROM topics_idempotencykey
 WHERE topic_id = %s AND key = %s AND ts + 0 > %s
"""
KEEP_KEY = """
INSERT INTO topics_idempotencykey (topic_id, key, first_seq, last_seq, ts, digest) VALUES (%s, %s, %s, %s, %s, %s::bytea)
ON CONFLICT (topic_id, key) DO UPDATE
   SET first_seq = excluded.first_seq, last_seq = excluded.last_seq, ts = excluded.ts, digest = excluded.digest
"""
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
        elif topic.rejects or topic.sealed:
            done = yield from look_and_write(topic, name, wanted, rows, now)
        elif wanted.plain:
            done = yield Write(topic, rows, now)
        else:
            condition = AtHead if wanted.idempotency_key is None else Unless
            done = yield condition(topic, wanted, rows, now)
            if done is None:  # look why
                done = yield from look_and_write(topic, name, wanted, rows, now)
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
        return (yield from look_and_write(None, name, wanted, rows, now))
    # Two steps, each of which many requests share: the second makes room, or keeps a key. Should we die between them, an empty
    # topic is there, and the client, who has no answer, sends the append again.
    created = yield from create_topic(name, fields, now, noted=False)
    done = yield from append(name, wanted, rows, now)
    return done._replace(created=created or done.created)


def look_and_write(
    topic: CachedTopic | None, name: str, wanted: Append, rows: Rows, now: int
) -> Script[Appended | None]:
    """An append that has to look before it writes. None: the topic is another than the one we knew."""
    started = time.perf_counter()
    lock = name if topic is None else topic.id
    found = yield from atomically(look_and_write_once(topic, name, wanted, rows, now), lock)
    if found is None:
        return None
    topic, done = found
    return done if done.deduped else committed(topic, done, started)


def committed(topic: CachedTopic, done: Appended, started: float) -> Appended:
    """Tell whoever waits for the topic. Returns the append with the time that its commit waited for the disk."""
    wake.moved(topic, done.last_seq)
    whole_ms = (time.perf_counter() - started) * 1000
    return done._replace(fsync_ms=whole_ms - done.wal_append_ms) if topic.durability == "fsync" else done


def look_and_write_once(
    topic: CachedTopic | None, name: str, wanted: Append, rows: Rows, now: int
) -> Script[tuple[CachedTopic, Appended] | None]:
    created = topic is None
    if topic is None:
        topic = yield from insert_topic(name, wanted.config.fields() if wanted.config else {}, now)
        if topic is None:
            return None
    held = yield Statement(LOCK_AND_LOOK, (topic.id, topic.version))
    if not held:
        return None
    head_seq = held[0][0]
    if wanted.idempotency_key is not None:
        since = now - topic.idempotency_window_ms
        kept = yield Statement(FIND_KEY, (rows.digest(), topic.id, wanted.idempotency_key, since))
        if kept:
            ((first_seq, last_seq, is_same),) = kept
            if not is_same:
                raise sealed.marked(mismatch(wanted.idempotency_key, first_seq, last_seq), topic.sealed)
            return topic, Appended(first_seq, last_seq, head_seq, False, True, 0.0, 0.0, topic.sealed)
    if topic.sealed:  # behind the key: a retry of an append that is there is answered as the first one was
        raise sealed.refused(topic.name)
    if wanted.expected_head is not None and wanted.expected_head != head_seq:
        raise HeadMismatch(
            f"expected the head at {wanted.expected_head}, it is at {head_seq}",
            head_seq=head_seq,
            expected_head=wanted.expected_head,
        )
    if topic.rejects:
        yield from check_room(topic, rows, now)
    done = yield from write_once(topic, rows, now)
    if done is None:
        return None
    if wanted.idempotency_key is not None:
        kept_as = (topic.id, wanted.idempotency_key, done.first_seq, done.last_seq, now, rows.digest())
        yield Statement(KEEP_KEY, kept_as)
    return topic, done._replace(created=created)


def mismatch(key: str, first_seq: int, last_seq: int) -> IdempotencyMismatch:
    return IdempotencyMismatch(
        f"idempotency key {key!r} names the append of seqs {first_seq} to {last_seq}, which carried other records: "
        "a retry sends the same bytes, and another append has a key of its own",
        first_seq=first_seq,
        last_seq=last_seq,
    )


def write_once(topic: CachedTopic, rows: Rows, now: int) -> Script[Appended | None]:
    """Write, and make room under the caps, in the transaction of the caller. None: the topic is another than we knew."""
    started = time.perf_counter()
    yield Statement(SYNC, ("on" if topic.durability == "fsync" else "off",))
    found = yield Statement(*appending([(topic, rows)], now))
    if not found:
        return None
    if topic.evicts:
        yield Statement(MAKE_ROOM, room(topic, now))
    base = found[0][1]
    wal_append_ms = (time.perf_counter() - started) * 1000
    return Appended(base + 1, base + len(rows.data), base + len(rows.data), False, False, wal_append_ms, 0.0)


def check_room(topic: CachedTopic, rows: Rows, now: int) -> Script[None]:
    """Raises TopicFull. What is over its time makes room first: it is no longer there for any reader."""
    if topic.ttl_ms:
        yield Statement(EXPIRE, (topic.id, topic.expired_ts(now)))
    ((_, count, bytes),) = yield Statement(LOCK_AND_LOOK, (topic.id, topic.version))
    if topic.cap_records and count + len(rows.data) > topic.cap_records:
        raise TopicFull(f"{topic.name!r} holds {count} records of {topic.cap_records}", cap_records=topic.cap_records)
    if topic.cap_bytes and bytes + rows.bytes > topic.cap_bytes:
        raise TopicFull(f"{topic.name!r} holds {bytes} bytes of {topic.cap_bytes}", cap_bytes=topic.cap_bytes)


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
