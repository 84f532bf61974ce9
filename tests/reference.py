"""The log in memory: what docs/wire.md says of topics, with lists, and nothing done later than it is due.

Times are passed in and never go back. A record lives in `live`; one that was lost is remembered in `lost`,
since every reader below it has to be told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Record:
    """A record as it was written; `size` is the bytes of its data and meta."""

    seq: int
    ts: int
    data: str
    tag: str | None
    node: str | None
    size: int


@dataclass
class Config:
    """The parts of a topic's config that matter to the log. No crash happens here, so the durability has no effect."""

    durability: str = "disk"
    ttl_ms: int = 0
    cap_records: int = 0
    cap_bytes: int = 0
    discard: str = "old"
    idempotency_window_ms: int = 120_000


@dataclass
class Window:
    """A read's answer."""

    records: list[Record]
    scanned: int
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    reason: str | None


class Full(Exception):
    """discard is `reject`, and there is no room."""


class Mismatch(Exception):
    """The idempotency key is that of an append with other records."""


@dataclass
class Log:
    """One topic."""

    config: Config = field(default_factory=Config)
    head_seq: int = 0
    recreated_seq: int = 0  # the last head of the topic that had the name before
    last_ts: int = 0
    live: list[Record] = field(default_factory=list)
    lost: list[tuple[int, str]] = field(default_factory=list)  # seq and reason
    keys: dict[str, tuple[int, int, int, list[Any]]] = field(default_factory=dict)  # first and last seq, when, and what

    @property
    def count(self) -> int:
        return len(self.live)

    @property
    def bytes(self) -> int:
        return sum(record.size for record in self.live)

    @property
    def earliest_seq(self) -> int:
        return self.live[0].seq if self.live else self.head_seq + 1

    def lose(self, number: int, reason: str) -> None:
        """The oldest ones go without anybody asking."""
        self.lost += [(record.seq, reason) for record in self.live[:number]]
        del self.live[:number]

    def expire(self, now: int) -> None:
        if self.config.ttl_ms:
            self.lose(sum(record.ts < now - self.config.ttl_ms for record in self.live), "ttl")

    def over(self, more_records: int = 0, more_bytes: int = 0) -> bool:
        config = self.config
        over_records = config.cap_records > 0 and self.count + more_records > config.cap_records
        return over_records or (config.cap_bytes > 0 and self.bytes + more_bytes > config.cap_bytes)

    def evict(self) -> None:
        while self.config.discard == "old" and self.over():
            self.lose(1, "cap")

    def configure(self, now: int, **changes: int | str) -> None:
        self.expire(now)
        for name, value in changes.items():
            setattr(self.config, name, value)
        self.expire(now)
        self.evict()

    def append(
        self, new: list[tuple[str, str | None, str | None, int]], now: int, key: str | None = None
    ) -> tuple[int, int, bool]:
        """Records as (data, tag, node, size). Returns the first and last seq, and whether the key was known."""
        self.expire(now)
        if known := self.known(key, new, now):
            return (*known, True)
        return (*self.write(new, now, {} if key is None else {key: range(len(new))}), False)

    def append_named(
        self, new: list[tuple[str, str | None, str | None, int]], now: int, keys: list[str | None]
    ) -> tuple[list[int], list[int]]:
        """A key for each record, or None. Returns the seqs, and the places of the records that were known."""
        self.expire(now)
        known = [self.known(key, [record], now) for record, key in zip(new, keys, strict=True)]
        fresh = [place for place, found in enumerate(known) if found is None]
        places = {keys[place]: range(at, at + 1) for at, place in enumerate(fresh) if keys[place] is not None}
        first_seq = self.write([new[place] for place in fresh], now, places)[0] if fresh else 0
        seqs = [first_seq + fresh.index(place) if found is None else found[0] for place, found in enumerate(known)]
        return seqs, [place for place, found in enumerate(known) if found]

    def known(self, key: str | None, new: list[Any], now: int) -> tuple[int, int] | None:
        """The first and last seq under the key."""
        if key is None or key not in self.keys or self.keys[key][2] <= now - self.config.idempotency_window_ms:
            return None
        if self.keys[key][3] != new:
            raise Mismatch
        return self.keys[key][:2]

    def write(
        self, new: list[tuple[str, str | None, str | None, int]], now: int, keys: dict[Any, range]
    ) -> tuple[int, int]:
        """Each key names a range of the new records."""
        if self.config.discard == "reject" and self.over(len(new), sum(size for *_, size in new)):
            raise Full
        self.last_ts = max(self.last_ts, now)
        first_seq = self.head_seq + 1
        for data, tag, node, size in new:
            self.head_seq += 1
            self.live.append(Record(self.head_seq, self.last_ts, data, tag, node, size))
        for key, places in keys.items():
            named = (first_seq + places.start, first_seq + places.stop - 1)
            self.keys[key] = (*named, now, new[places.start : places.stop])
        self.evict()
        return first_seq, self.head_seq

    def delete(self, now: int, before_seq: int | None, tag: str | None, glob: bool = False) -> int:
        self.expire(now)
        before = self.count
        self.live = [
            record
            for record in self.live
            if (before_seq is not None and record.seq >= before_seq)
            or not (tag is None or matches(record.tag, tag, glob))
        ]
        return before - self.count

    def delete_seqs(self, now: int, seqs: list[int]) -> int:
        self.expire(now)
        before = self.count
        self.live = [record for record in self.live if record.seq not in seqs]
        return before - self.count

    def diff(
        self, now: int, from_seq: int, limit: int, most_bytes: int, nodes: list[str], tag: str | None, glob: bool
    ) -> Window:
        self.expire(now)
        reasons = {reason for seq, reason in self.lost if seq > from_seq}
        reason = "mixed" if len(reasons) > 1 else min(reasons, default=None)
        after = from_seq
        if from_seq > self.head_seq:
            reason, after = "recreated", 0
        elif 0 < self.recreated_seq >= from_seq and self.head_seq > from_seq:
            reason = "recreated"
        window = [record for record in self.live if record.seq > after][:limit]
        next_seq = window[-1].seq if len(window) == limit else self.head_seq
        run = 0
        for place, record in enumerate(window):
            run += record.size
            if place and run > most_bytes:
                window = window[:place]
                next_seq = window[-1].seq
                break
        shown = matching(window, nodes, tag, glob)
        return Window(shown, len(window), next_seq, self.head_seq, self.earliest_seq, reason)


def matching(records: list[Record], nodes: list[str], tag: str | None, glob: bool) -> list[Record]:
    """Those that a reader with these nodes and this predicate gets."""
    return [
        record for record in records if record.node not in nodes and (tag is None or matches(record.tag, tag, glob))
    ]


def matches(tag: str | None, pattern: str, glob: bool) -> bool:
    return tag is not None and (tag.startswith(pattern) if glob else tag == pattern)
