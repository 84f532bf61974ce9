"""Append: one statement for any number of records and topics (contract.md section 3, design.md section 3).

All records of an append get contiguous seqs or none is written. Taking the head row makes seq order commit
order. What must look before it writes (an idempotency key, an expected head, a cap, a topic to create) goes
through append() in a transaction of its own; plain appends share one in batch.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

import msgspec
from django.conf import settings
from django.db import connection, transaction
from msgspec import Meta

from base.errors import BatchTooLarge, HeadMismatch, InvalidRequest, RecordTooLarge, TopicFull, TopicNotFound
from base.names import check_node, check_tag
from store import disk as storage
from store.database import translating
from topics import wake
from topics.cache import Known, forget, known, look_up
from topics.config import Config, create_topic
from wire.keys import Key
from wire.limits import check_total_bytes

# Heads are locked in topic order, so that no two of these deadlock: `ids` are in order, and whichever side of the join comes
# first, it comes in that order (= ANY (ids) is an index scan for it; it also keeps a planner that believes the heads are few
# from reading them all). Each lock is held until the commit, so nobody gets seq n+1 before n is there to read. A topic
# whose version is another gets no row: the caller looks it up again.
# Elements of a JSON array come out as they were written, which the record functions of json do not promise. Arrays that are
# shorter go on with NULL: what no record has is sent as an empty one.
# A head that passes its reserved_seq makes this one transaction wait for the disk (sql/topic_reserve.sql).
APPEND = """
WITH moved AS (
    UPDATE topics_topichead head
       SET head_seq = head.head_seq + batch.count, count = head.count + batch.count,
           bytes = head.bytes + batch.bytes, total = head.total + batch.bytes,
           last_ts = greatest(head.last_ts, %(now)s),
           reserved_seq = topic_reserve(head.head_seq + batch.count, head.reserved_seq)
           {volatile_seqs}
      FROM unnest(%(ids)s::bigint[], %(versions)s::bigint[], %(counts)s::bigint[], %(bytes)s::bigint[])
               AS batch (topic_id, version, count, bytes)
     WHERE head.topic_id = batch.topic_id AND head.version = batch.version AND head.topic_id = ANY (%(ids)s::bigint[])
    RETURNING head.topic_id, head.head_seq - batch.count AS base, head.total - batch.bytes AS base_total, head.last_ts),
written AS (
    INSERT INTO topics_record_{partition} (topic_id, seq, ts, total, size, volatile, node, tag, meta, data)
    SELECT moved.topic_id, moved.base + new.place, moved.last_ts, moved.base_total + new.run, new.size, {volatile},
           new.node, new.tag, nullif(new.meta::text, 'null')::json, new.data
      FROM ROWS FROM (json_array_elements(%(data)s::json), json_array_elements_text(%(tags)s::json),
                      json_array_elements_text(%(nodes)s::json), json_array_elements(%(metas)s::json),
                      unnest(%(topics)s::bigint[]), unnest(%(places)s::bigint[]),
                      unnest(%(sizes)s::int[]), unnest(%(runs)s::bigint[]))
               AS new (data, tag, node, meta, topic_id, place, size, run)
      JOIN moved USING (topic_id))
SELECT topic_id, base FROM moved
"""
APPEND_LOGGED = APPEND.format(partition="logged", volatile="false", volatile_seqs="")
# Volatile records may vanish, so that nothing may take their seqs for a plain run of logged ones.
APPEND_VOLATILE = APPEND.format(
    partition="volatile",
    volatile="true",
    volatile_seqs=", ragged_seq = head.head_seq + batch.count, volatile_seq = head.head_seq + batch.count",
)

# After an append to a capped topic, behind the same lock: what is over its time goes first, then the oldest. A topic whose
# version is another got no append, and must not be trimmed by what its caps were.
MAKE_ROOM = """
SELECT topic_expire(topic_id, %s), topic_evict(topic_id, %s, %s) FROM topics_topichead WHERE topic_id = %s AND version = %s
"""

LOCK_HEAD = """
SELECT head_seq, count, bytes FROM topics_topichead WHERE topic_id = %s AND version = %s FOR UPDATE
"""
# The head's lock is held, so of two racing retries the second sees the first's key.
FIND_KEY = "SELECT first_seq, last_seq FROM topics_idempotencykey WHERE topic_id = %s AND key = %s AND ts > %s"
KEEP_KEY = """
INSERT INTO topics_idempotencykey (topic_id, key, first_seq, last_seq, ts) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (topic_id, key) DO UPDATE SET first_seq = excluded.first_seq, last_seq = excluded.last_seq, ts = excluded.ts
"""

NO_META = msgspec.Raw(b"null")
# Read once: looking a setting up takes longer than checking a record by it.
MAX_RECORDS, MAX_RECORD_BYTES = settings.TOPICS_MAX_RECORDS_PER_APPEND, settings.TOPICS_MAX_RECORD_BYTES
OBJECT = Meta(extra_json_schema={"type": ["object", "null"]})


class NewRecord(msgspec.Struct):
    """A record as a client writes it. `data` and `meta` stay the very bytes that were sent."""

    data: msgspec.Raw
    tag: str | None = None
    node: str | None = None
    meta: Annotated[msgspec.Raw, OBJECT] = msgspec.field(default_factory=lambda: NO_META)


class Append(msgspec.Struct):
    """The body of an append."""

    records: list[NewRecord]
    node: str | None = None
    idempotency_key: str | None = None
    create: bool = True
    config: Config | None = None
    disable_backpressure: bool = False
    expected_head: int | None = None

    @property
    def plain(self) -> bool:
        """Whether it may share a transaction: nothing to look at before it writes."""
        return self.idempotency_key is None and self.expected_head is None

    def check_names(self, key: Key) -> None:
        """Raises Forbidden when it names a topic outside the key's prefixes."""
        if self.config is not None:
            self.config.check_names(key)


class Rows(NamedTuple):
    """Checked records, column by column."""

    data: list[msgspec.Raw]
    tags: list[str | None]
    nodes: list[str | None]
    metas: list[msgspec.Raw]
    sizes: list[int]
    bytes: int


class Appended(NamedTuple):
    """What an append got: its seqs, the head then, and where the time went (ms)."""

    first_seq: int
    last_seq: int
    head_seq: int
    created: bool
    deduped: bool
    wal_append_ms: float
    fsync_ms: float


def check_rows(wanted: Append) -> Rows:
    """The records as rows. Raises InvalidRequest, BatchTooLarge, RecordTooLarge or StorageFull: none may be written."""
    storage.check()
    records = wanted.records
    if not records:
        raise InvalidRequest("records is empty: an append carries at least one")
    if len(records) > MAX_RECORDS:
        message = f"{len(records)} records in one append, at most {MAX_RECORDS} are allowed"
        raise BatchTooLarge(message, max=MAX_RECORDS)
    if wanted.idempotency_key is not None and not 0 < len(wanted.idempotency_key) <= 256:
        raise InvalidRequest("idempotency_key has to be 1 to 256 characters long")
    if wanted.idempotency_key is not None and "\0" in wanted.idempotency_key:
        raise InvalidRequest("idempotency_key holds a NUL character")
    if wanted.node is not None:
        check_node(wanted.node)
    sizes = []
    for place, record in enumerate(records):
        if record.tag is not None:
            check_tag(record.tag)
        if record.node is None:
            record.node = wanted.node
        elif record.node is not wanted.node:
            check_node(record.node)
        size = len(record.data)
        if record.meta is not NO_META:
            size += check_meta(bytes(record.meta))
        if size > MAX_RECORD_BYTES:
            message = f"records[{place}] is {size} bytes, at most {MAX_RECORD_BYTES} are allowed"
            raise RecordTooLarge(message, index=place, max=MAX_RECORD_BYTES)
        sizes.append(size)
    return Rows(
        [r.data for r in records],
        [r.tag for r in records],
        [r.node for r in records],
        [r.meta for r in records],
        sizes,
        sum(sizes),
    )


def check_meta(meta: bytes) -> int:
    """The size of a meta object in bytes, 0 of null; raises InvalidRequest when it is no small object."""
    if meta == b"null":
        return 0
    if len(meta) > settings.TOPICS_MAX_META_BYTES:
        raise InvalidRequest(f"meta is {len(meta)} bytes, at most {settings.TOPICS_MAX_META_BYTES} are allowed")
    try:
        fields = msgspec.json.decode(meta, type=dict[str, msgspec.Raw])  # a number may be one that no float holds
    except msgspec.MsgspecError as error:
        raise InvalidRequest("meta has to be an object") from error
    if len(fields) > settings.TOPICS_MAX_META_KEYS:
        raise InvalidRequest(f"meta has {len(fields)} keys, at most {settings.TOPICS_MAX_META_KEYS} are allowed")
    return len(meta)


def parameters(batch: Sequence[tuple[Known, Rows]], now: int) -> dict[str, Any]:
    """What APPEND wants for these appends, all of one partition. Arrays go as text: one type, one prepared statement."""
    topics: dict[int, Known] = {}
    counts: dict[int, int] = {}
    totals: dict[int, int] = {}
    ids: list[int] = []
    places: list[int] = []
    runs: list[int] = []
    data: list[msgspec.Raw] = []
    tags: list[str | None] = []
    nodes: list[str | None] = []
    metas: list[msgspec.Raw] = []
    sizes: list[int] = []
    for topic, rows in batch:
        id, count, total = topic.id, counts.get(topic.id, 0), totals.get(topic.id, 0)
        length = len(rows.data)
        topics[id], counts[id], totals[id] = topic, count + length, total + rows.bytes
        ids += [id] * length
        places += range(count + 1, count + length + 1)
        runs += [total + run for run in accumulate(rows.sizes)]
        data += rows.data
        tags += rows.tags
        nodes += rows.nodes
        metas += rows.metas
        sizes += rows.sizes
    in_order = sorted(topics)
    return {
        "now": now,
        "ids": array(in_order),
        "versions": array([topics[id].version for id in in_order]),
        "counts": array([counts[id] for id in in_order]),
        "bytes": array([totals[id] for id in in_order]),
        "topics": array(ids),
        "places": array(places),
        "runs": array(runs),
        "sizes": array(sizes),
        "data": (b"[%b]" % b",".join(data)).decode(),
        "tags": texts(tags),
        "nodes": texts(nodes),
        "metas": "[]" if metas.count(NO_META) == len(metas) else (b"[%b]" % b",".join(metas)).decode(),
    }


def texts(values: list[str | None]) -> str:
    return "[]" if values.count(None) == len(values) else msgspec.json.encode(values).decode()


def array(numbers: list[int]) -> str:
    return "{" + msgspec.json.encode(numbers)[1:-1].decode() + "}"


def append(name: str, wanted: Append, rows: Rows, now: int) -> Appended:
    """Append in a transaction of its own, creating the topic when it is absent and may be created.

    Raises TopicNotFound, HeadMismatch, TopicFull, InvalidRequest, Throttled or NotReady: nothing was appended.
    """
    check_total_bytes(rows.bytes)
    while True:
        topic = find(name, wanted)
        with translating():
            done = append_once(topic, name, wanted, rows, now)
        if done is not None:
            return done
        forget(name)  # configured anew, deleted or created since we looked


def find(name: str, wanted: Append) -> Known | None:
    try:
        return known(name)
    except TopicNotFound:
        if not wanted.create:
            raise
        return None


def append_once(topic: Known | None, name: str, wanted: Append, rows: Rows, now: int) -> Appended | None:
    """None: the topic is another than the one we knew."""
    started = time.perf_counter()
    with transaction.atomic(), connection.cursor() as cursor:
        created = topic is None
        if topic is None:
            if not create_topic(name, wanted.config, now):
                return None
            topic = look_up(name)
        cursor.execute("SET LOCAL synchronous_commit = " + ("on" if topic.durability == "fsync" else "off"))
        cursor.execute(LOCK_HEAD, [topic.id, topic.version])
        head = cursor.fetchone()
        if head is None:
            return None
        head_seq = head[0]
        if wanted.idempotency_key is not None:
            cursor.execute(FIND_KEY, [topic.id, wanted.idempotency_key, now - topic.idempotency_window_ms])
            if (kept := cursor.fetchone()) is not None:
                first_seq, last_seq = kept
                return Appended(first_seq, last_seq, head_seq, False, True, 0.0, 0.0)
        if wanted.expected_head is not None and wanted.expected_head != head_seq:
            raise HeadMismatch(
                f"expected the head at {wanted.expected_head}, it is at {head_seq}",
                head_seq=head_seq,
                expected_head=wanted.expected_head,
            )
        write(cursor, topic, rows, now)
        first_seq, last_seq = head_seq + 1, head_seq + len(rows.data)
        if wanted.idempotency_key is not None:
            cursor.execute(KEEP_KEY, [topic.id, wanted.idempotency_key, first_seq, last_seq, now])
        wrote = time.perf_counter()
    committed = time.perf_counter()
    wake.moved(topic, last_seq)
    fsync_ms = (committed - wrote) * 1000 if topic.durability == "fsync" else 0.0
    return Appended(first_seq, last_seq, last_seq, created, False, (wrote - started) * 1000, fsync_ms)


def write(cursor: Any, topic: Known, rows: Rows, now: int) -> None:
    """Write behind the locked head; make room under the caps, or raise TopicFull."""
    if topic.rejects:
        check_room(cursor, topic, rows, now)
    cursor.execute(APPEND_VOLATILE if topic.volatile else APPEND_LOGGED, parameters([(topic, rows)], now))
    if topic.evicts:
        cursor.execute(MAKE_ROOM, room(topic, now))


def room(topic: Known, now: int) -> tuple[int | None, int, int, int, int]:
    """What MAKE_ROOM wants."""
    return topic.expired_ts(now), topic.cap_records, topic.cap_bytes, topic.id, topic.version


def check_room(cursor: Any, topic: Known, rows: Rows, now: int) -> None:
    """What is over its time makes room first: it is no longer there for any reader."""
    if topic.ttl_ms:
        cursor.execute("SELECT topic_expire(%s, %s)", [topic.id, topic.expired_ts(now)])
    cursor.execute("SELECT count, bytes FROM topics_topichead WHERE topic_id = %s", [topic.id])
    count, bytes = cursor.fetchone()
    if topic.cap_records and count + len(rows.data) > topic.cap_records:
        raise TopicFull(f"{topic.name!r} holds {count} records of {topic.cap_records}", cap_records=topic.cap_records)
    if topic.cap_bytes and bytes + rows.bytes > topic.cap_bytes:
        raise TopicFull(f"{topic.name!r} holds {bytes} bytes of {topic.cap_bytes}", cap_bytes=topic.cap_bytes)
