"""What the answers of /v0/topics look like, field by field (docs/wire.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from topics.config import WholeConfig
from wire.paging import NextCursor
from wire.schema import Clamped, Performance

TopicName = Annotated[str, Meta(description="The topic's name.")]
HeadSeq = Annotated[
    int,
    Meta(
        description="The highest seq given out; 0 before the first. A topic that is created again has its predecessor's."
    ),
]
EarliestSeq = Annotated[int, Meta(description="The seq of the first live record; `head_seq + 1` where there is none.")]
Count = Annotated[int, Meta(description="Live records.")]
Bytes = Annotated[int, Meta(description="Bytes of `data` and `meta` of the live records.")]


class WritePerformance(Performance):
    """Where the time of a write went, in ms."""

    wal_append_ms: float
    """Milliseconds that PostgreSQL took to write it."""
    fsync_ms: float
    """Milliseconds of waiting for the disk."""


class ReadPerformance(Performance):
    """Where the time of a read went, in ms, and how many records it looked at."""

    records_scanned: int
    """How many records were looked at."""


class PutTopicAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    created: bool
    """False: the topic was there before."""
    config: WholeConfig
    """The whole config, as it is now."""
    clamped: Clamped = UNSET
    performance: Performance


class TopicAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    type: Literal["log", "queue"]
    """What the topic is."""
    head_seq: HeadSeq
    earliest_seq: EarliestSeq
    next_seq: int
    """`head_seq + 1`. After a crash of PostgreSQL the next append may get a higher one."""
    count: Count
    bytes: Bytes
    config: WholeConfig
    """The whole config."""
    effective_priority: int
    """`priority`, or minus the whole seconds since the topic was last read or written, -1000 at the least."""
    last_write_ts: int | None
    """When it was last appended to, in milliseconds since the epoch; null: never."""
    last_read_ts: int | None
    """When it was last read, in milliseconds since the epoch; null: never. Written down once a second."""
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
    """`priority`, or minus the whole seconds since the topic was last read or written, -1000 at the least."""


class TopicsAnswer(msgspec.Struct, kw_only=True):
    topics: list[ListedTopic]
    """The topics of this page, by name."""
    next_cursor: NextCursor = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteTopicAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    deleted: bool
    """False: there was none."""
    routers_removed: list[str]
    """The names of the routers that went with it."""
    performance: Performance


class AppendAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    first_seq: int
    """The seq of the first record."""
    last_seq: int
    """The seq of the last one."""
    seqs: list[int] | UnsetType = UNSET
    """The seqs of all of them, in order; absent with `return_seqs=false`."""
    head_seq: HeadSeq
    count: int
    """How many records were appended."""
    created: bool
    """True: this append created the topic."""
    deduped: bool
    """True: the idempotency key was known, and nothing was appended now."""
    copied: int | UnsetType = UNSET
    """How many records a copy wrote. With `copy` only."""
    clamped: Clamped = UNSET
    performance: WritePerformance


class RecordShown(msgspec.Struct, kw_only=True):
    """A record. What was not set is absent."""

    seq: int = msgspec.field(name="$seq")
    """Where it stands in the topic: 1, 2, 3, …, in the order of commits."""
    ts: int = msgspec.field(name="$ts")
    """When it was appended, in milliseconds since the epoch; never below the record before."""
    node: str | UnsetType = msgspec.field(name="$node", default=UNSET)
    """Who wrote it."""
    tag: str | UnsetType = msgspec.field(name="$tag", default=UNSET)
    """What it is chosen by; shown with `include_tags`."""
    meta: dict[str, Any] | UnsetType = UNSET
    """The very object that was sent."""
    data: Any
    """The very JSON that was sent."""


class Tombstone(msgspec.Struct, kw_only=True):
    """What was lost above from_seq without anybody asking for it."""

    gap_from: int
    """The first seq of the gap; `gap_to + 1` where no seq lies between."""
    gap_to: int
    """The last seq of the gap. The records of the same answer are above it."""
    reason: str
    """`cap`, `ttl`: evicted by a cap, over its time. `restart`: lost with a crash or restart. `source_trim`: a
    router's source lost it first. `mixed`: several of these. `recreated`: `from_seq` is of a topic of this
    name that was deleted."""
    lost_from: int | UnsetType = UNSET
    """Of a loss by a crash or restart: where it begins. If that is below `gap_from`, you were shown records that are no more:
    all you have from `lost_from` on. Undo what you did with them."""
    missed_estimate: int
    """How many seqs lie in the gap: records at the most."""
    earliest_seq: EarliestSeq
    head_seq: HeadSeq


class DiffAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    records: list[RecordShown]
    """May be short or empty with more to come: `caught_up` tells, not their number."""
    next_from_seq: int
    """The last seq that was looked at: `from_seq` of the next read."""
    head_seq: HeadSeq
    earliest_seq: EarliestSeq
    caught_up: bool
    """Whether `next_from_seq` is the head."""
    tombstone: Tombstone | None
    """What was lost above `from_seq` without anybody asking for it; null: nothing."""
    lag: int
    """`head_seq - next_from_seq`."""
    clamped: Clamped = UNSET
    performance: ReadPerformance


class Path(msgspec.Struct):
    """Where a record lies, and the routers it came through, first to last."""

    topic: str
    """The topic that it was written to."""
    seq: int
    """Its seq there."""
    routers: list[str]
    """The routers that it came through, first to last."""


class RecordAnswer(RecordShown, kw_only=True):
    path: Path
    """Where it was written, and how it came here."""
    performance: Performance


class DeleteRecordsAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    deleted: int
    """How many records went."""
    earliest_seq: EarliestSeq
    head_seq: HeadSeq
    count: Count
    bytes: Bytes
    performance: Performance


class CursorShown(msgspec.Struct, kw_only=True):
    """A cursor. `kind` is `named`, or what it belongs to: then it is read-only."""

    topic: TopicName
    cursor: str
    """The cursor's name."""
    kind: str
    """`named`, or what it belongs to, and then it is read-only: `router`, `pipeline`."""
    seq: int
    """The last seq that was read."""
    lag: int
    """The head minus `seq`, computed now."""
    oldest_unread_ms: int | None
    """Milliseconds since the first record behind it was appended; null where nothing is unread."""
    updated_ts: int
    """When it last moved, in milliseconds since the epoch."""


class CursorAnswer(CursorShown, kw_only=True):
    created: bool | UnsetType = UNSET
    """True: this call made the cursor. With a PUT only."""
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
    """False: there was none."""
    performance: Performance
