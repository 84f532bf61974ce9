"""Appends the records of a partition once, even if Spark sends the partition late or several times.

The SQL function `pipeline_append` stores a chunk and the entry of its batch in one transaction, under the head's lock. So the
late copy of a task sees the batch of the first copy. The code needs a connection with the role `topics_writer`. It needs neither
Django nor Redis: the server's sweep finds the appended records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import psycopg

from base.bounds import check_meta, check_token
from base.errors import InvalidRequest, NotReady, RecordTooLarge, Throttled, TopicFull, TopicSealed, TopicsError
from topics.totals import BYTES, TOPICS

CHUNK_RECORDS = 10_000
CHUNK_BYTES = 8 * 1024 * 1024
PATIENCE_SECONDS, POLL_SECONDS = 60, 0.05
APPEND = """
SELECT pipeline_append(%(topic)s, %(writer)s, %(partition)s, %(batch)s, %(expected)s,
                       %(data)s::json, %(tags)s::json, %(nodes)s::json, %(metas)s::json)
"""
ARRAYS = ("data", "tags", "nodes", "metas")
SO_FAR = """
SELECT w.records FROM topics_topic t JOIN pipeline_written w ON w.topic_id = t.id
 WHERE t.name = %(topic)s AND w.writer = %(writer)s AND w.partition = %(partition)s AND w.batch = %(batch)s
"""
# The time for a lock or a statement is limited, so that no task holds the lock of a topic or waits for it without limit.
LIMITS = "SET lock_timeout = '30s'; SET statement_timeout = '5min'; SET idle_in_transaction_session_timeout = '5min'"
REFUSALS: dict[str | None, type[TopicsError]] = {"topic_sealed": TopicSealed, "topic_full": TopicFull}


class Claim(NamedTuple):
    """Identifies a batch: topic, writer, partition and batch number."""

    topic: str
    writer: str
    partition: int
    batch: int


class Record(NamedTuple):
    """A record to append. `data` and `meta` are JSON as it will be stored."""

    data: msgspec.Raw
    tag: str | None = None
    node: str | None = None
    meta: msgspec.Raw | None = None


class Caps(NamedTuple):
    """The caps of all topics together, as the server's settings of the same names have them. 0 is no cap."""

    topics: int = 0
    total_bytes: int = 0

    @classmethod
    def of_environment(cls) -> Caps:
        """Returns the caps of this process's environment, or the server's defaults."""
        environment = os.environ
        return cls(
            int(environment.get("TOPICS_MAX_TOPICS") or 100_000), int(environment.get("TOPICS_MAX_TOTAL_BYTES") or 0)
        )

    def check_topics(self, connection: psycopg.Connection[Any], topic: str) -> None:
        """Raises Throttled if the topic does not exist, and there are already as many topics as the cap."""
        row = connection.execute(TOPICS, [topic]).fetchone() if self.topics else None
        if row and row[0] >= self.topics and not row[1]:
            message = f"there are {row[0]} of at most {self.topics} topics (TOPICS_MAX_TOPICS): delete topics"
            raise Throttled(message, limit="topics", max=self.topics)

    def check_bytes(self, connection: psycopg.Connection[Any], more: int) -> None:
        """Raises Throttled if the topics would hold too many bytes."""
        row = connection.execute(BYTES).fetchone() if self.total_bytes else None
        if row and row[0] + more > self.total_bytes:
            message = (
                f"the topics hold {row[0]} of at most {self.total_bytes} bytes (TOPICS_MAX_TOTAL_BYTES): delete records"
            )
            raise Throttled(message, limit="total_bytes", max=self.total_bytes)


NO_CAPS = Caps()


class Bounds(NamedTuple):
    """The bounds of a record, as the server's settings of the same names have them."""

    record_bytes: int
    meta_bytes: int
    meta_keys: int
    tag_bytes: int
    node_bytes: int

    @classmethod
    def of_environment(cls) -> Bounds:
        """Returns the bounds of this process's environment, or the server's defaults."""
        defaults = {"RECORD_BYTES": 1024 * 1024, "META_BYTES": 16 * 1024, "META_KEYS": 64, "TAG_BYTES": 256}
        found = {name: int(os.environ.get(f"TOPICS_MAX_{name}") or defaults[name]) for name in defaults}
        node_bytes = int(os.environ.get("TOPICS_MAX_NODE_BYTES") or 128)
        return cls(found["RECORD_BYTES"], found["META_BYTES"], found["META_KEYS"], found["TAG_BYTES"], node_bytes)

    def check(self, record: Record) -> int:
        """Returns the size of a record in bytes. Raises InvalidRequest or RecordTooLarge."""
        for what, value, most in (("tag", record.tag, self.tag_bytes), ("node", record.node, self.node_bytes)):
            if value is not None:
                check_token(what, value, most)
        size = len(record.data)
        if record.meta is not None:
            size += check_meta(bytes(record.meta), self.meta_bytes, self.meta_keys)
        if size > self.record_bytes:
            raise RecordTooLarge(
                f"a record has {size} bytes: expected at most {self.record_bytes}", max=self.record_bytes
            )
        return size


def append_whole(
    connection: psycopg.Connection[Any], claim: Claim, chunks: Iterable[Sequence[Record]], caps: Caps = NO_CAPS
) -> int:
    """Appends a whole partition in one transaction. Returns the number of appended records: 0 if the batch is already stored.

    A retry can have its records in another order, so a partial append could not be continued. `chunks` must be ready to read,
    because the topic is locked during the append. Raises InvalidRequest, Throttled, TopicFull, TopicSealed or NotReady.
    """
    done = 0
    caps.check_topics(connection, claim.topic)
    with translated(), connection.transaction():
        for sent in encoded(chunks):
            caps.check_bytes(connection, len(sent["data"]))
            now = append_chunk(connection, claim, done, sent)
            if now is None or now < 0:
                # The first chunk found the batch of another attempt. All other chunks run under the same lock.
                return 0
            done = now
    return done


def append_in_order(
    connection: psycopg.Connection[Any],
    claim: Claim,
    records: Iterable[Record],
    bounds: Bounds,
    offset: int = 0,
    caps: Caps = NO_CAPS,
) -> int:
    """Appends records of a batch from its record number `offset` on (0 is the first), after all records before them.

    Several tasks can share the claim, each with its own offset. Each chunk is a transaction of its own, so every attempt must
    have the same records in the same order. Returns how many records this call appended. Raises the errors of append_whole, and
    NotReady if another attempt of the same task has stored more, or if the records before `offset` do not arrive. Chunks from
    before an error stay, and are not appended again.
    """
    before = done = await_turn(connection, claim, offset)
    caps.check_topics(connection, claim.topic)
    for sent in encoded(chunked(islice(iter(records), before - offset, None), bounds)):
        with translated():
            caps.check_bytes(connection, len(sent["data"]))
            now = append_chunk(connection, claim, done, sent)
        if now is None:
            raise NotReady("another try of this task is writing the same records")
        if now < 0:
            return done - before
        done = now
    return done - before


def await_turn(connection: psycopg.Connection[Any], claim: Claim, offset: int) -> int:
    """Waits until the batch has at least `offset` records. Returns their number.

    Raises NotReady if no record is appended for PATIENCE_SECONDS. The task then frees its core: Spark may need the core to repeat
    the task before it.
    """
    seen, since = -1, 0.0
    while (stored := so_far(connection, claim)) < offset:
        if stored > seen:
            seen, since = stored, time.monotonic()
        elif time.monotonic() - since > PATIENCE_SECONDS:
            raise NotReady(
                f"the records before number {offset} of the batch were not appended for {PATIENCE_SECONDS} s"
            )
        time.sleep(POLL_SECONDS)
    return stored


def so_far(connection: psycopg.Connection[Any], claim: Claim) -> int:
    """Returns how many records of the batch are stored in the topic."""
    row = connection.execute(SO_FAR, claim._asdict()).fetchone()
    return int(row[0]) if row else 0


def chunked(records: Iterable[Record], bounds: Bounds) -> Iterator[list[Record]]:
    """Yields checked records in chunks of bounded size. Raises InvalidRequest or RecordTooLarge."""
    chunk: list[Record] = []
    size = 0
    for record in records:
        size += bounds.check(record)
        chunk.append(record)
        if len(chunk) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def append_chunk(connection: psycopg.Connection[Any], claim: Claim, expected: int, sent: dict[str, str]) -> int | None:
    """Returns how many records of the batch are stored now. See the SQL function for None and -1."""
    row = connection.execute(APPEND, {**claim._asdict(), "expected": expected, **sent}).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def encoded(chunks: Iterable[Sequence[Record]]) -> Iterator[dict[str, str]]:
    """Yields the columns of each chunk as JSON arrays. A thread makes the next while PostgreSQL appends the current."""
    making = (
        {
            name: msgspec.json.encode(list(column)).decode()
            for name, column in zip(ARRAYS, zip(*chunk, strict=True), strict=True)
        }
        for chunk in chunks
    )
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, making, None)
        while (sent := following.result()) is not None:
            following = thread.submit(next, making, None)
            yield sent


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
        if error.diag.message_hint in ("topic_sealed", "topic_full", "invalid_request", "incompatible"):
            raise REFUSALS.get(error.diag.message_hint, InvalidRequest)(error.diag.message_primary or "") from error
        raise
