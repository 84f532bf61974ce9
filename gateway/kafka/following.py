"""One reader that follows a topic: first what the topic holds, then each new record, also over a delete of the topic."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from gateway.kafka.messages import Shown
from gateway.kafka.pages import tombstone
from gateway.kafka.shapes import TagMatch
from gateway.kafka.tails import TailRing
from gateway.kafka.topics import KafkaTopic
from gateway.kafka.version import ClusterVersion


class EventSize(NamedTuple):
    """The most records of a part, and the bytes of their data and meta. A larger record comes alone."""

    records: int
    bytes: int

    def first(self, records: list[Shown]) -> list[Shown]:
        """Returns those that fit, from the first on."""
        sizes = accumulate(record.size for record in records[: self.records])
        fitting = sum(1 for size in sizes if size <= self.bytes)
        return records[: max(1, fitting)]


@dataclass
class FollowedPart:
    """The next events of a topic: a loss, then records. `from_seq` to `to_seq` is what was examined. `deleted`: the topic was."""

    from_seq: int
    to_seq: int
    head_seq: int
    records: list[Shown] = field(default_factory=list)
    lost: dict[str, Any] | None = None
    deleted: bool = False

    @property
    def caught_up(self) -> bool:
        return self.to_seq >= self.head_seq


class TopicFollower:
    """A reader at `seq` of the topic with `id`. None as id: of the topic that there is now."""

    def __init__(
        self, kafka: ClusterVersion, name: str, seq: int, id: str | None, match: TagMatch, size: EventSize
    ) -> None:
        self.kafka, self.name, self.seq, self.id = kafka, name, seq, id
        self.match, self.size = match, size
        self.news = asyncio.Event()
        self.ring: TailRing | None = None
        self.is_gone = False  # the topic was deleted, and the client knows

    async def next(self) -> FollowedPart | None:
        """Returns what comes next, or None if nothing is new. Raises TopicsError."""
        self.kafka = self.kafka.newest  # the ring of an earlier version has ended
        with self.kafka.clients.used():
            return await self.next_part()

    async def next_part(self) -> FollowedPart | None:
        if self.ring is not None and self.ring.ended:
            self.kafka.topics.forget(self.name)
            self.close()
        if self.ring is not None and self.ring.first <= self.seq:
            return self.of_ring(self.ring)
        topic = await self.kafka.topics.find(self.name)
        if topic is None:
            was_gone, self.is_gone = self.is_gone, True
            return None if was_gone else FollowedPart(self.seq, self.seq, self.seq, deleted=True)
        return await self.of_topic(topic)

    async def of_topic(self, topic: KafkaTopic) -> FollowedPart | None:
        """Returns what the topic holds after the position. At its end, the reader begins to follow its tail."""
        is_other = self.id is not None and self.id != topic.id
        was = 0 if is_other else self.seq
        page = await self.kafka.pages.after(topic, was, self.size.records, self.match, most_bytes=self.size.bytes)
        lost = page.tombstone
        if is_other:
            lost = {**(tombstone(topic, page.extent, 2**63) or {}), "missed_estimate": 0}
        part = FollowedPart(was, page.next, page.extent.head_seq, page.records, lost)
        if lost is not None:
            part.from_seq = page.extent.low
        self.id, self.is_gone = topic.id, False
        if page.lag == 0 and (self.ring is None or self.ring.first > page.next):
            self.close()
            self.ring = self.kafka.tail.follow(topic, page.next)
            self.ring.tell(self.news)
        has_moved = is_other or self.seq != page.next
        self.seq = page.next
        return part if has_moved or lost is not None else None

    def of_ring(self, ring: TailRing) -> FollowedPart | None:
        if ring.end <= self.seq:
            return None
        after = ring.after(self.seq)
        found = self.size.first(after)
        to_seq = ring.end if len(found) == len(after) else found[-1].seq
        records = [each for each in found if self.match.takes(each.tag, each.node)]
        part = FollowedPart(self.seq, to_seq, ring.end, records)
        self.seq = to_seq
        return part

    @property
    def head_seq(self) -> int:
        return max(self.seq, self.ring.end if self.ring is not None else 0)

    def close(self) -> None:
        ring, self.ring = self.ring, None
        if ring is not None:
            ring.waiting.discard(self.news)
            self.kafka.tail.leave(ring)
