"""What the answers of /v0/topics look like, field by field (docs/wire.md)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from topics.config import WholeConfig
from wire.schema import Clamped, Performance


class WritePerformance(Performance):
    """Where the time of a write went, in ms."""

    wal_append_ms: float
    fsync_ms: float


class ReadPerformance(Performance):
    """Where the time of a read went, in ms, and how many records it looked at."""

    records_scanned: int


class PutTopicAnswer(msgspec.Struct, kw_only=True):
    topic: str
    created: bool
    config: WholeConfig
    clamped: Clamped = UNSET
    performance: Performance


class TopicAnswer(msgspec.Struct, kw_only=True):
    topic: str
    type: Literal["log", "queue"]
    head_seq: int
    earliest_seq: int
    next_seq: int
    count: int
    bytes: int
    config: WholeConfig
    effective_priority: int
    last_write_ts: int | None
    last_read_ts: int | None
    performance: Performance


class ListedTopic(msgspec.Struct):
    topic: str
    head_seq: int
    earliest_seq: int
    count: int
    bytes: int
    durable: bool
    effective_priority: int


class TopicsAnswer(msgspec.Struct, kw_only=True):
    topics: list[ListedTopic]
    next_cursor: str | UnsetType = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteTopicAnswer(msgspec.Struct, kw_only=True):
    topic: str
    deleted: bool
    routers_removed: list[str]
    performance: Performance


class AppendAnswer(msgspec.Struct, kw_only=True):
    topic: str
    first_seq: int
    last_seq: int
    seqs: list[int] | UnsetType = UNSET
    head_seq: int
    count: int
    created: bool
    deduped: bool
    clamped: Clamped = UNSET
    performance: WritePerformance


class RecordShown(msgspec.Struct, kw_only=True):
    """A record. What was not set is absent."""

    seq: int = msgspec.field(name="$seq")
    ts: int = msgspec.field(name="$ts")
    node: str | UnsetType = msgspec.field(name="$node", default=UNSET)
    tag: str | UnsetType = msgspec.field(name="$tag", default=UNSET)
    meta: dict[str, Any] | UnsetType = UNSET
    data: Any


class Tombstone(msgspec.Struct):
    """What was lost above from_seq without anybody asking for it."""

    gap_from: int
    gap_to: int
    reason: str
    missed_estimate: int
    earliest_seq: int
    head_seq: int


class DiffAnswer(msgspec.Struct, kw_only=True):
    topic: str
    records: list[RecordShown]
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    tombstone: Tombstone | None
    lag: int
    clamped: Clamped = UNSET
    performance: ReadPerformance


class Path(msgspec.Struct):
    """Where a record lies, and the routers it came through, first to last."""

    topic: str
    seq: int
    routers: list[str]


class RecordAnswer(RecordShown, kw_only=True):
    path: Path
    performance: Performance


class DeleteRecordsAnswer(msgspec.Struct, kw_only=True):
    topic: str
    deleted: int
    earliest_seq: int
    head_seq: int
    count: int
    bytes: int
    performance: Performance


class CursorShown(msgspec.Struct, kw_only=True):
    """A cursor. `kind` is `named`, or what it belongs to: then it is read-only."""

    topic: str
    cursor: str
    kind: str
    seq: int
    lag: int
    oldest_unread_ms: int | None
    updated_ts: int


class CursorAnswer(CursorShown, kw_only=True):
    created: bool | UnsetType = UNSET
    performance: Performance


class CursorsAnswer(msgspec.Struct, kw_only=True):
    topic: str
    cursors: list[CursorShown]
    next_cursor: str | UnsetType = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteCursorAnswer(msgspec.Struct, kw_only=True):
    topic: str
    cursor: str
    deleted: bool
    performance: Performance
