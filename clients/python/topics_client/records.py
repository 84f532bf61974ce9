"""The values that calls return."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

Data = TypeVar("Data")


class Record(msgspec.Struct, Generic[Data]):
    """A record of a topic. `ts` is the time of the append, in ms since the epoch."""

    seq: int = msgspec.field(name="$seq")
    ts: int = msgspec.field(name="$ts")
    data: Data
    tag: str | None = msgspec.field(name="$tag", default=None)
    node: str | None = msgspec.field(name="$node", default=None)
    meta: dict[str, Any] | None = None


class Streamed(Record[Data], Generic[Data]):
    """A record of a watch, with its topic, or of a group, with its share, too."""

    topic: str = ""
    share: int | None = None


class Tombstone(msgspec.Struct):
    """Lost records: the seqs from `gap_from` to `gap_to`, `missed_estimate` in number.

    `topic`: of a watch or a group. `share`: of a group, where each share tells its losses.

    `lost_from`, after a crash of the server: the first lost seq. If it is below `gap_from`, this reader may have read records
    that the crash took back.
    """

    reason: str
    gap_from: int
    gap_to: int
    earliest_seq: int
    head_seq: int
    missed_estimate: int = 0
    lost_from: int | None = None
    topic: str | None = None
    share: int | None = None


class Window(msgspec.Struct, Generic[Data]):
    """A read: `records`, and the losses before them. Continue the read after `next_from_seq`."""

    records: list[Record[Data]]
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    lag: int
    tombstone: Tombstone | None = None


class Job(msgspec.Struct, Generic[Data]):
    """A job of a queue, under a lease. `deadline`: first end of the lease, in ms since the epoch. `deliveries`: with this one."""

    seq: int = msgspec.field(name="$seq")
    ts: int = msgspec.field(name="$ts")
    lease_id: str
    deadline: int
    deliveries: int
    data: Data
    tag: str | None = msgspec.field(name="$tag", default=None)
    meta: dict[str, Any] | None = None


class Appended(msgspec.Struct):
    """The outcome of an append. `deduped`: the topic already had the records. `deduplicated`: the indexes of those it had."""

    first_seq: int
    last_seq: int
    head_seq: int
    count: int
    created: bool
    deduped: bool
    seqs: list[int] = []
    deduplicated: list[int] = []

    @property
    def seq(self) -> int:
        """The seq of the only record."""
        return self.last_seq


class New(msgspec.Struct, omit_defaults=True):
    """A record to append."""

    data: Any
    tag: str | None = None
    node: str | None = None
    meta: dict[str, Any] | None = None


class Cursor(msgspec.Struct):
    """A named position of a reader: the last seq that is done."""

    topic: str
    cursor: str
    kind: str
    seq: int
    lag: int
    updated_ts: int
    oldest_unread_ms: int | None = None
