"""The answers of /v0/topics, field by field (docs/wire.md)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from contract.config import TopicType
from contract.cursors import CursorKind
from contract.names import OF_TOPIC, NamedRouter, NamedTopic
from topics.config import WholeConfig
from wire.paging import NextCursor
from wire.schema import Clamped, Performance

TopicName = Annotated[str, Meta(description="The topic's name.", extra=OF_TOPIC)]
HeadSeq = Annotated[
    int,
    Meta(
        description="The highest seq given out, 0 before the first. A recreated topic starts at the head of its predecessor."
    ),
]
EarliestSeq = Annotated[int, Meta(description="The seq of the first live record, or `head_seq + 1` without one.")]
Count = Annotated[int, Meta(description="Live records.")]
Bytes = Annotated[int, Meta(description="Bytes of `data` and `meta` of the live records.")]


class WritePerformance(Performance):
    """Durations of a write, in ms."""

    wal_append_ms: float
    """Milliseconds of PostgreSQL's write."""
    fsync_ms: float
    """Milliseconds of waiting for the disk."""


class ReadPerformance(Performance):
    """Durations of a read in ms, and its number of examined records."""

    records_scanned: int
    """Number of records that the read examined."""


class PutTopicAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    created: bool
    """False: the topic existed before."""
    config: WholeConfig
    """The whole config after this call."""
    clamped: Clamped = UNSET
    performance: Performance


class QueueShown(msgspec.Struct):
    """The jobs of a queue."""

    ready: int
    """Jobs that a claim can get now."""
    in_flight: int
    """Jobs that a node holds."""
    dead_lettered: int
    """Jobs that were moved to the dead letter topic, since the queue was created."""
    delayed: int
    """Jobs that a worker gave back with a delay, which has not ended."""
    oldest_ready_ms: int | None
    """Milliseconds for which a job has been ready. Null: no job is ready."""


class TopicAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    type: TopicType
    """Type of the topic."""
    head_seq: HeadSeq
    earliest_seq: EarliestSeq
    next_seq: int
    """`head_seq + 1`. After a crash of PostgreSQL the next append can get a higher seq."""
    count: Count
    bytes: Bytes
    config: WholeConfig
    """The whole config."""
    effective_priority: int
    """`priority`, or minus the whole seconds since the topic was last read or written, at least -1000."""
    last_write_ts: int | None
    """Time of the last append, in milliseconds since the epoch. Null: never."""
    last_read_ts: int | None
    """Time of the last read, in milliseconds since the epoch. Null: never. The server updates this time once a second."""
    queue: QueueShown | UnsetType = UNSET
    """The jobs. Only of a queue."""
    performance: Performance


class ListedTopic(msgspec.Struct):
    """A topic in a list."""

    topic: TopicName
    head_seq: HeadSeq
    earliest_seq: EarliestSeq
    count: Count
    bytes: Bytes
    durable: bool
    """Whether `durability` is `fsync`."""
    effective_priority: int
    """`priority`, or minus the whole seconds since the topic was last read or written, at least -1000."""


class TopicsAnswer(msgspec.Struct, kw_only=True):
    topics: list[ListedTopic]
    """The topics of this page, by name."""
    next_cursor: NextCursor = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteTopicAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    deleted: bool
    """False: the topic did not exist."""
    routers_removed: list[NamedRouter]
    """Names of the routers that were deleted with the topic."""
    performance: Performance


class AppendAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    first_seq: int
    """The seq of the first record."""
    last_seq: int
    """The seq of the last record."""
    seqs: list[int] | UnsetType = UNSET
    """The seqs of all records, in order. Absent with `return_seqs=false`."""
    head_seq: HeadSeq
    count: int
    """Number of records of this append."""
    created: bool
    """True: this append created the topic."""
    deduped: bool
    """True: the topic knew the idempotency key, or each record, and this call appended nothing."""
    deduplicated: list[int] | UnsetType = UNSET
    """Indexes in `records`, from 0, of the records that were not written: their key is known, or a job has their tag. Only with
    `idempotency_keys`, or in a queue with `unique_tags`."""
    copied: int | UnsetType = UNSET
    """Number of records that a copy wrote. Only with `copy`."""
    clamped: Clamped = UNSET
    performance: WritePerformance


class RecordShown(msgspec.Struct, kw_only=True):
    """A record. Fields that were not set are absent."""

    seq: int = msgspec.field(name="$seq")
    """Number of the record in its topic: 1, 2, 3, …, in the order of commits."""
    ts: int = msgspec.field(name="$ts")
    """Time of the append, in milliseconds since the epoch. It can fall, because clocks of hosts differ."""
    node: str | UnsetType = msgspec.field(name="$node", default=UNSET)
    """Name of the writer."""
    tag: str | UnsetType = msgspec.field(name="$tag", default=UNSET)
    """Label of the record. Only with `include_tags`."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Exactly the object that was sent."""
    data: Any
    """Exactly the JSON that was sent."""


class Tombstone(msgspec.Struct, kw_only=True):
    """The loss of records above `from_seq` without a request to delete."""

    gap_from: int
    """The first seq of the gap. If the gap has no seq, `gap_to + 1`."""
    gap_to: int
    """The last seq of the gap. The records of the same answer are above it."""
    reason: str
    """`cap`: evicted by a cap. `ttl`: expired. `restart`: lost in a crash or restart. `source_trim`: a router's source lost
    the records before they were forwarded, or a site before its mirror read them. `capture`: changes of a table that could
    not be captured. `mixed`: several of these reasons. `recreated`: `from_seq` belongs to a deleted topic of the same name,
    or to a log that this server does not have."""
    lost_from: int | UnsetType = UNSET
    """The first seq of a loss by a crash or restart. If it is below `gap_from`, you have records that no longer exist: all
    from `lost_from` on. Undo their effects."""
    missed_estimate: int
    """Number of seqs in the gap: an upper bound for the lost records."""
    earliest_seq: EarliestSeq
    head_seq: HeadSeq


class DiffAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    records: list[RecordShown]
    """Can be short or empty although more records follow. Check `caught_up`, not their number."""
    next_from_seq: int
    """The last examined seq. Send it as `from_seq` of the next read, with the same `order`."""
    head_seq: HeadSeq
    earliest_seq: EarliestSeq
    caught_up: bool
    """Whether no seq is left. Then `next_from_seq` is the head, or `earliest_seq` with `order: desc`."""
    tombstone: Tombstone | None
    """Loss above `from_seq` without a request to delete. Null: no loss."""
    lag: int
    """Number of seqs that are left: `head_seq - next_from_seq`, or `next_from_seq - earliest_seq` with `order: desc`."""
    scanned_to: int | UnsetType = UNSET
    """The last examined seq of a call that ended before it had `limit` matches. Absent: the call had them, or no record is
    left."""
    clamped: Clamped = UNSET
    performance: ReadPerformance


class Path(msgspec.Struct):
    """Home of a record, and the routers on its way, from first to last."""

    topic: NamedTopic
    """The topic that the record was appended to."""
    seq: int
    """The record's seq in this topic."""
    routers: list[NamedRouter]
    """The routers that forwarded the record, from first to last."""


class RecordAnswer(RecordShown, kw_only=True):
    path: Path
    """Home of the record, and the routers on its way."""
    performance: Performance


class DeleteRecordsAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    deleted: int
    """Number of deleted records."""
    earliest_seq: EarliestSeq
    head_seq: HeadSeq
    count: Count
    bytes: Bytes
    performance: Performance


class CursorShown(msgspec.Struct, kw_only=True):
    """A cursor. `kind` is `named`, or the kind of its owner. Only a named cursor can be set."""

    topic: TopicName
    cursor: str
    """The cursor's name."""
    kind: CursorKind
    """`named`, or the kind of the owner: `router`, `pipeline`, `subscription`, `webhook`. A cursor with an owner is read-only."""
    seq: int
    """The last seq that the reader has read."""
    lag: int
    """The head minus `seq`, computed at this call."""
    oldest_unread_ms: int | None
    """Milliseconds since the append of the first record after the cursor. Null: no unread record."""
    updated_ts: int
    """Time of the last move, in milliseconds since the epoch."""


class CursorAnswer(CursorShown, kw_only=True):
    created: bool | UnsetType = UNSET
    """True: this call created the cursor. Only with a PUT."""
    performance: Performance


class CursorsAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    cursors: list[CursorShown]
    """The cursors of this page, by name."""
    next_cursor: NextCursor = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteCursorAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    cursor: str
    """The cursor's name."""
    deleted: bool
    """False: the cursor did not exist."""
    performance: Performance
