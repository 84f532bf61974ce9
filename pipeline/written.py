"""Appends the records of a partition once, even if Spark sends the partition late or several times.

The transaction of the append stores the batch in Written. The transaction locks the topic's head before all other steps. So the
late copy of a task sees the batch of the first copy.
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
from topics.append import committed
from topics.cache import CachedTopic, forget_known, known_topic
from topics.config import insert_topic
from topics.insert import Appended
from topics.judged import append_once as append_rows
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
# Spark never resends a committed batch. So the commit waits for the disk, whatever the topic's durability is.
FLUSH = "SELECT set_config('synchronous_commit', 'on', true)"


PLAIN = Append([])  # an append without conditions


class Claim(NamedTuple):
    """Identifies a batch: topic, writer, partition and batch number."""

    topic: str
    writer: str
    partition: int
    batch: int


def append_whole(claim: Claim, records: Iterable[NewRecord]) -> int:
    """Appends a whole partition in one transaction. Returns the number of appended records: 0 if the batch is already stored.

    A retry can have its records in another order, so a partial append could not be continued. `records` must be ready to read,
    because the topic is locked during the append. Raises InvalidRequest, TopicFull and the other errors of an append.
    """
    return run(append_chunks(claim, chunks(records), None))


def append_in_order(claim: Claim, records: Iterable[NewRecord]) -> int:
    """Appends a partition chunk by chunk, each chunk in its own transaction.

    Every attempt must have the same records in the same order. Returns how many records this call appended. Raises the errors
    of append_whole. Chunks from before an error stay, and are not appended again.
    """
    incoming = iter(records)
    before = done = run(so_far(claim))
    for _ in islice(incoming, before):
        pass
    for chunk in chunks(incoming):
        done += run(append_chunks(claim, [chunk], done))
    return done - before


def so_far(claim: Claim) -> Script[int]:
    """Returns how many records of the batch are stored in the topic."""
    topic = yield from known_topic(claim.topic)
    rows = (yield Statement(FIND, (topic.id, claim.writer, claim.partition))) if topic else []
    return int(rows[0][1]) if rows and rows[0][0] == claim.batch else 0


def chunks(records: Iterable[NewRecord]) -> Iterator[Rows]:
    """Yields checked records in statements of bounded size. Raises InvalidRequest or RecordTooLarge."""
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
    """Appends all parts in one transaction. Returns the number of appended records.

    `expected` is the number of the batch's records that are already stored; None means that the batch must be new. Raises
    NotReady if another attempt of the same task has stored more.
    """
    while True:
        topic = yield from known_topic(claim.topic)
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
        forget_known(topic)  # the topic was reconfigured, deleted or created since the lookup; `parts` is still unread


def append_once(
    topic: CachedTopic, claim: Claim, parts: Iterable[Rows], expected: int | None
) -> Script[tuple[int, Appended | None] | None]:
    if not (yield Statement(LOCK_HEAD, (topic.id, topic.version))):
        return None
    place = (topic.id, claim.writer, claim.partition)
    rows = yield Statement(FIND, place)
    batch, records = rows[0] if rows else (-1, 0)
    if batch > claim.batch or (batch == claim.batch and expected is None):
        return 0, None  # a late attempt
    if expected not in (None, records if batch == claim.batch else 0):
        raise NotReady("another try of this task is writing the same records")
    count, done = 0, None
    if topic.sealed:
        raise sealed.refused(topic.name)
    for part in parts:
        if limits.MOST_TOTAL_BYTES:
            yield from limits.check_total_bytes(part.bytes)
        done = yield from append_rows(topic, PLAIN, part, now_ms())
        count += len(part.data)
    if done is not None:
        yield Statement(KEEP, (*place, claim.batch, count, now_ms()))
        yield Statement(FLUSH)
    return count, done
