"""Appends the records of a partition once, even if Spark sends the partition late or several times.

The SQL function `pipeline_append` stores a chunk and the entry of its batch in one transaction, under the head's lock. So the
late copy of a task sees the batch of the first copy. The code needs a connection with the role `topics_writer`, or for a restore
the login of the server. It needs neither Django nor Redis: the server's sweep finds the appended records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, LiteralString, NamedTuple

import psycopg
import pyarrow as pa

from base.errors import (
    Forbidden,
    InvalidRequest,
    NotReady,
    RecordTooLarge,
    Throttled,
    TopicFull,
    TopicSealed,
    TopicsError,
)
from pipeline.write.chunks import Bounds, Chunk, chunks

APPEND = """
SELECT pipeline_append(%(topic)s, %(writer)s, %(partition)s, %(batch)s, %(expected)s,
                       %(data)s::json, %(tags)s::json, %(nodes)s::json, %(metas)s::json)
"""
# For a restore: an archive has the stamps of servers, and records of a time with other bounds.
STORE = APPEND.replace("pipeline_append", "pipeline_store")
SO_FAR = """
SELECT w.records FROM topics_topic t JOIN pipeline_written w ON w.topic_id = t.id
 WHERE t.name = %(topic)s AND w.writer = %(writer)s AND w.partition = %(partition)s AND w.batch = %(batch)s
"""
# Counts records of the batch that are left out, unless another attempt was first. So `records` is the place in the archive, also
# after a restore by a release that appended such records.
LEAVE_OUT = """
INSERT INTO pipeline_written AS w (topic_id, writer, partition, batch, records, ts)
SELECT t.id, %(writer)s, %(partition)s, %(batch)s, %(expected)s::bigint + %(left_out)s,
       extract(epoch FROM clock_timestamp()) * 1000
  FROM topics_topic t WHERE t.name = %(topic)s
ON CONFLICT (topic_id, writer, partition) DO UPDATE
   SET batch = excluded.batch, ts = excluded.ts, records = excluded.records
 WHERE w.batch < excluded.batch OR (w.batch = excluded.batch AND w.records = %(expected)s)
RETURNING records
"""
# The time for a lock or a statement is limited, so that no task holds the lock of a topic or waits for it without limit.
LIMITS = "SET lock_timeout = '30s'; SET statement_timeout = '5min'; SET idle_in_transaction_session_timeout = '5min'"
REFUSALS: dict[str | None, type[TopicsError]] = {
    each.code: each for each in (Forbidden, InvalidRequest, RecordTooLarge, Throttled, TopicFull, TopicSealed)
}


class Claim(NamedTuple):
    """Identifies a batch: topic, writer, partition and batch number."""

    topic: str
    writer: str
    partition: int
    batch: int


def append_whole(connection: psycopg.Connection[Any], claim: Claim, made: Iterator[Chunk]) -> int:
    """Appends a whole partition in one transaction. Returns the number of appended records: 0 if the batch is already stored.

    A retry can have its records in another order, so a partial append could not be continued. `made` must be ready to read,
    because the topic is locked during the append. Raises the errors of REFUSALS, or NotReady.
    """
    done = 0
    with translated(), connection.transaction():
        for chunk in ahead(made):
            now = append_chunk(connection, APPEND, claim, done, chunk)
            if now is None or now < 0:
                # The first chunk found the batch of another attempt. All other chunks run under the same lock.
                return 0
            done = now
    return done


def append_in_order(
    connection: psycopg.Connection[Any],
    claim: Claim,
    batches: Iterable[pa.RecordBatch],
    bounds: Bounds,
    tell: Callable[[tuple[int, ...]], None] | None = None,
) -> int:
    """Appends the records of a batch that the topic does not have yet. Returns the number of appended records.

    `tell` gets the seqs of an archive's records before they are left out, so that a killed run has told them, too.

    Each chunk is a transaction of its own, so every attempt must have the same records in the same order. Raises the errors of
    append_whole, and NotReady if another attempt appends at the same time. Chunks from before an error stay, and are not appended
    again.
    """
    done, appended = so_far(connection, claim), 0
    for chunk in ahead(chunks(without_first(batches, done), bounds)):
        if chunk.left_out and tell is not None:
            tell(chunk.left_out)
        with translated(), connection.transaction():
            now = append_chunk(connection, STORE, claim, done, chunk) if chunk.records else done
            if chunk.left_out and now is not None and now >= 0:
                now = leave_out(connection, claim, now, len(chunk.left_out))
            if now is None:
                raise NotReady("another run is writing the same records")
        if now < 0:
            return appended
        done, appended = now, appended + chunk.records
    return appended


def without_first(batches: Iterable[pa.RecordBatch], records: int) -> Iterator[pa.RecordBatch]:
    """Yields the batches without the first records."""
    for batch in batches:
        yield batch.slice(min(records, batch.num_rows))
        records -= min(records, batch.num_rows)


def so_far(connection: psycopg.Connection[Any], claim: Claim) -> int:
    """Returns how many records of the batch are stored in the topic or left out."""
    row = connection.execute(SO_FAR, claim._asdict()).fetchone()
    return int(row[0]) if row else 0


def append_chunk(
    connection: psycopg.Connection[Any], statement: LiteralString, claim: Claim, expected: int, chunk: Chunk
) -> int | None:
    """Returns how many records of the batch are stored or left out now. See the SQL function for None and -1."""
    row = connection.execute(statement, {**claim._asdict(), "expected": expected, **chunk._asdict()}).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def leave_out(connection: psycopg.Connection[Any], claim: Claim, expected: int, count: int) -> int | None:
    """Returns how many records of the batch are stored or left out now. None: another attempt was first."""
    row = connection.execute(LEAVE_OUT, {**claim._asdict(), "expected": expected, "left_out": count}).fetchone()
    return None if row is None else int(row[0])


def ahead(made: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yields the chunks. A thread makes the next while PostgreSQL appends the current."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, made, None)
        while (chunk := following.result()) is not None:
            following = thread.submit(next, made, None)
            yield chunk


@contextmanager
def translated() -> Iterator[None]:
    """Turns refusals of the SQL functions into errors of the domain."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise InvalidRequest(
            f"this login may not append: GRANT topics_writer to it ({error.diag.message_primary})"
        ) from error
    except psycopg.Error as error:
        told = error.diag
        if (refusal := REFUSALS.get(told.message_detail)) is not None:  # of door_refuse
            raise refusal(told.message_primary or "", **json.loads(told.message_hint or "{}")) from error
        if told.message_hint in ("invalid_request", "incompatible"):  # of pipeline_follow
            raise InvalidRequest(told.message_primary or "") from error
        raise
