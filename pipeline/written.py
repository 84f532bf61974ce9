"""Append what a partition holds, once, however often and however late Spark sends it.

What was appended is written down (Written) in the transaction of the append itself. The topic's head is taken first, and
everything else under it: of a task and its late double the second finds what the first has written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from django.conf import settings

from base.clock import now_ms
from base.errors import NotReady
from store.script import Script, Statement, atomically, run
from topics import limits, sealed
from topics.append import check_room, committed, write_once
from topics.cache import CachedTopic, cached, forget, load_topic
from topics.config import insert_topic
from topics.insert import Appended
from topics.records import Append, NewRecord, Rows, check_rows

CHUNK_RECORDS = min(10_000, settings.TOPICS_MAX_RECORDS_PER_APPEND)
CHUNK_BYTES = 8 * 1024 * 1024

LOCK_HEAD = "SELECT head_seq FROM topics_topichead WHERE topic_id = %s AND version = %s FOR UPDATE"
FIND = "SELECT batch, records FROM pipeline_written WHERE topic_id = %s AND writer = %s AND partition = %s"
KEEP = """
INSERT INTO pipeline_written AS w (topic_id, writer, partition, batch, records, ts) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (topic_id, writer, partition) DO UPDATE
   SET batch = excluded.batch, ts = excluded.ts,
       records = excluded.records + CASE WHEN w.batch = excluded.batch THEN w.records ELSE 0 END
"""
# Spark does not send again what it was told is written: the commit waits for the disk, whatever the topic's durability.
FLUSH = "SELECT set_config('synchronous_commit', 'on', true)"


class Claim(NamedTuple):
    """Whose batch it is, and which partition of it."""

    topic: str
    writer: str
    partition: int
    batch: int


def append_whole(claim: Claim, records: Iterable[NewRecord]) -> int:
    """Append all of a partition in one transaction, or nothing of it. Returns how many: 0 when it is there already.

    A second try may have its records in another order, so that it could not go on in the middle. `records` are there to be read
    at once: the topic is locked meanwhile. Raises InvalidRequest, TopicFull and what else an append does.
    """
    return run(append_chunks(claim, chunks(records), None))


def append_in_order(claim: Claim, records: Iterable[NewRecord]) -> int:
    """Append a partition chunk by chunk, each in a transaction of its own: every try has the same records in the same order.

    Returns how many were appended now. Raises as append_whole does; what was appended before stays, and is not appended again.
    """
    incoming = iter(records)
    before = done = run(so_far(claim))
    for _ in islice(incoming, before):
        pass
    for chunk in chunks(incoming):
        done += run(append_chunks(claim, [chunk], done))
    return done - before


def so_far(claim: Claim) -> Script[int]:
    """How many records of the batch are in the topic."""
    topic = cached(claim.topic) or (yield from load_topic(claim.topic))
    rows = (yield Statement(FIND, (topic.id, claim.writer, claim.partition))) if topic else []
    return int(rows[0][1]) if rows and rows[0][0] == claim.batch else 0


def chunks(records: Iterable[NewRecord]) -> Iterator[Rows]:
    """Checked records, in statements of a bounded size. Raises InvalidRequest or RecordTooLarge."""
    chunk: list[NewRecord] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += len(record.data) + len(record.meta)
        if len(chunk) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            yield check_rows(Append(chunk))
            chunk, size = [], 0
    if chunk:
        yield check_rows(Append(chunk))


def append_chunks(claim: Claim, parts: Iterable[Rows], expected: int | None) -> Script[int]:
    """Append all parts in one transaction, where so many records of the batch are in the topic; None: where it was not begun.

    Returns how many were appended. Raises NotReady when another try of the same task got further meanwhile.
    """
    while True:
        topic = cached(claim.topic) or (yield from load_topic(claim.topic))
        if topic is None:
            yield from atomically(insert_topic(claim.topic, {}, now_ms()))
            continue
        started = time.perf_counter()
        found = yield from atomically(append_once(topic, claim, parts, expected))
        if found is not None:
            count, done = found
            if done is not None:
                committed(topic, done, started)
            return count
        forget(claim.topic)  # configured anew, deleted or created since we looked; nothing was read of `parts`


def append_once(
    topic: CachedTopic, claim: Claim, parts: Iterable[Rows], expected: int | None
) -> Script[tuple[int, Appended | None] | None]:
    if not (yield Statement(LOCK_HEAD, (topic.id, topic.version))):
        return None
    place = (topic.id, claim.writer, claim.partition)
    rows = yield Statement(FIND, place)
    batch, records = rows[0] if rows else (-1, 0)
    if batch > claim.batch or (batch == claim.batch and expected is None):
        return 0, None  # a try that came late
    if expected not in (None, records if batch == claim.batch else 0):
        raise NotReady("another try of this task is writing the same records")
    count, done = 0, None
    if topic.sealed:
        raise sealed.refused(topic.name)
    for part in parts:
        if limits.MOST_TOTAL_BYTES:
            yield from limits.check_total_bytes(part.bytes)
        if topic.rejects:
            yield from check_room(topic, part, now_ms())
        done = yield from write_once(topic, part, now_ms())
        count += len(part.data)
    if done is not None:
        yield Statement(KEEP, (*place, claim.batch, count, now_ms()))
        yield Statement(FLUSH)
    return count, done
