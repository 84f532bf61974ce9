"""Reads: a diff in both directions, and single records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from base.errors import NotReady
from contract.operations import LONGEST_WAIT_MS
from gateway.kafka.client import KafkaClients
from gateway.kafka.messages import Shown, shown
from gateway.kafka.readers import Passed, ReaderPool
from gateway.kafka.shapes import MAX_LIMIT, TagMatch, WantedPage
from gateway.kafka.tails import KafkaTail
from gateway.kafka.topics import KafkaTopic, KafkaTopics

MAX_BYTES = 1024 * 1024  # of an answer
MOST_EXAMINED = 5_000


class OffsetRange(NamedTuple):
    """The offsets of a topic at one moment: of the first message, and after the last one."""

    low: int
    high: int

    @property
    def earliest_seq(self) -> int:
        return self.low + 1

    @property
    def head_seq(self) -> int:
        return self.high


@dataclass
class TopicPage:
    """A part of a topic. `next`: the last examined seq."""

    extent: OffsetRange
    next: int
    records: list[Shown] = field(default_factory=list)
    scanned: int = 0
    tombstone: dict[str, Any] | None = None
    scanned_to: int | None = None
    lag: int = 0

    def tells(self, from_seq: int) -> bool:
        """Whether the page has anything new for a reader at from_seq."""
        return self.next != from_seq or self.lag > 0 or self.tombstone is not None


@dataclass
class TopicPart:
    """The matches from the offset `begin` on, in ascending order."""

    begin: int
    records: list[Shown] = field(default_factory=list)
    scanned: int = 0


class TopicPages:
    """Reads the topics of a Kafka cluster."""

    def __init__(self, clients: KafkaClients, topics: KafkaTopics, tail: KafkaTail) -> None:
        self.clients, self.topics, self.readers, self.tail = clients, topics, ReaderPool(clients), tail

    async def extent(self, topic: str) -> OffsetRange:
        return OffsetRange(*await self.clients.ends(topic))

    async def seq_before(self, topic: str, ts: int) -> int:
        """Returns the seq after which the records from a time on begin."""
        found = await self.clients.offset_at(topic, ts)
        return found if found is not None else (await self.extent(topic)).head_seq

    async def diff(self, name: str, wanted: WantedPage) -> TopicPage:
        """Returns the next page of a topic. Raises TopicsError."""
        wanted.check_start()
        match = TagMatch(wanted.match, wanted.node)
        topic = await self.topics.get(name)
        if wanted.tail is not None:
            return await self.last(topic, wanted, match)
        if wanted.order == "desc":
            return await self.before(topic, wanted.from_seq, min(wanted.limit, MAX_LIMIT), match)
        if wanted.from_ts is not None:
            wanted.from_seq = await self.seq_before(name, wanted.from_ts)
        page = await self.next_page(topic, wanted, match)
        if wanted.from_ts is not None:
            page.tombstone = None  # a reader that starts at a time never had the records before
        return page

    async def next_page(self, topic: KafkaTopic, wanted: WantedPage, match: TagMatch) -> TopicPage:
        """Returns the records after a seq. Without any, waits for them if the client wants that."""
        from_seq, name = wanted.from_seq, topic.name
        limit = min(wanted.limit, MAX_LIMIT)
        by_match = wanted.window == "matches"
        page = await self.after(topic, from_seq, limit, match, by_match=by_match)
        if wanted.wait_ms and not page.tells(from_seq):
            seconds = min(wanted.wait_ms, LONGEST_WAIT_MS) / 1000
            if await self.wait(topic, page.extent.high, seconds):
                topic = await self.topics.get(name)
                page = await self.after(topic, from_seq, limit, match, by_match=by_match)
        return page

    async def wait(self, topic: KafkaTopic, high: int, seconds: float) -> bool:
        """Waits until the topic has another head, or is deleted. Returns False at the end of the time."""
        ring = self.tail.follow(topic, high)
        news = asyncio.Event()
        ring.tell(news)
        try:
            async with asyncio.timeout(seconds):
                while ring.end <= high and not ring.ended:
                    await news.wait()
                    news.clear()
        except TimeoutError:
            return False
        finally:
            ring.waiting.discard(news)
            self.tail.leave(ring)
        return True

    async def after(
        self,
        topic: KafkaTopic,
        from_seq: int,
        limit: int,
        match: TagMatch,
        *,
        by_match: bool = False,
        most_bytes: int = MAX_BYTES,
    ) -> TopicPage:
        """Returns the records after a seq, up to `most_bytes` of data and meta. A larger record comes alone. `by_match`: `limit`
        counts the matches."""
        page = await self.repeated(
            lambda extent: self.forward(topic, extent, from_seq, limit, match, by_match, most_bytes), topic.name
        )
        page.tombstone = tombstone(topic, page.extent, from_seq)
        page.lag = page.extent.head_seq - page.next
        return page

    async def forward(
        self,
        topic: KafkaTopic,
        extent: OffsetRange,
        from_seq: int,
        limit: int,
        match: TagMatch,
        by_match: bool,
        most_bytes: int,
    ) -> TopicPage:
        at = extent.low if from_seq > extent.head_seq else max(from_seq, extent.low)
        page = TopicPage(extent, at)
        counts_all = not by_match or match.takes_all
        size = 0
        while True:
            most = limit - page.scanned if counts_all else min(MAX_LIMIT, MOST_EXAMINED - page.scanned)
            fetched = await self.readers.read(topic.name, page.next, extent.high, most, most_bytes - size)
            page.next = fetched.next
            for message in fetched.messages:
                record = shown(message)
                is_match = match.takes(record.tag, record.node)
                if is_match and page.records and size + record.size > most_bytes:
                    page.next = record.seq - 1
                    return page
                page.scanned += 1
                if not is_match:
                    continue
                page.records.append(record)
                size += record.size
                if not counts_all and len(page.records) == limit:
                    page.next = record.seq
                    return page
            if page.next >= extent.high or size >= most_bytes or (counts_all and fetched.messages):
                return page
            if not counts_all and page.scanned >= MOST_EXAMINED:
                page.scanned_to = page.next
                return page

    async def before(self, topic: KafkaTopic, from_seq: int, limit: int, match: TagMatch) -> TopicPage:
        """Returns the records before a seq, the newest first. 0 is the head."""
        page = await self.repeated(lambda extent: self.backward(topic, extent, from_seq, limit, match), topic.name)
        page.lag = max(page.next - page.extent.earliest_seq, 0)
        return page

    async def last(self, topic: KafkaTopic, wanted: WantedPage, match: TagMatch) -> TopicPage:
        """Returns the last matches, in ascending order."""
        page = await self.before(topic, 0, min(wanted.tail or 0, MAX_LIMIT), match)
        page.records.reverse()
        page.next, page.lag = page.extent.head_seq, 0
        return page

    async def backward(
        self, topic: KafkaTopic, extent: OffsetRange, from_seq: int, limit: int, match: TagMatch
    ) -> TopicPage:
        end = min(from_seq - 1, extent.high) if from_seq else extent.high
        page = TopicPage(extent, max(end + 1, extent.earliest_seq))
        size = 0
        while end > extent.low and len(page.records) < limit and size < MAX_BYTES:
            part_size = min(max(limit - len(page.records), 100), MOST_EXAMINED - page.scanned)
            begin = max(extent.low, end - part_size)
            part = await self.part_before(topic.name, end, begin, match, MAX_BYTES - size)
            page.scanned += part.scanned
            for record in reversed(part.records):
                if page.records and size + record.size > MAX_BYTES:
                    page.next = record.seq + 1
                    return page
                page.records.append(record)
                size += record.size
                if len(page.records) == limit:
                    page.next = record.seq
                    return page
            page.next, end = part.begin + 1, part.begin
            if page.scanned >= MOST_EXAMINED and end > extent.low:
                page.scanned_to = page.next
                return page
        return page

    async def part_before(self, topic: str, end: int, begin: int, match: TagMatch, most_bytes: int) -> TopicPart:
        """Returns the matches from an offset on and before `end`.

        Kafka reads forward only. So if there are more than `most_bytes` of matches on the way to `end`, these are given up, and
        the part begins later: in the middle of the rest.
        """
        part, at, size = TopicPart(begin), begin, 0
        while at < end:
            fetched = await self.readers.read(topic, at, end, end - at, MAX_BYTES)
            at = fetched.next
            part.scanned += len(fetched.messages)
            for record in map(shown, fetched.messages):
                if match.takes(record.tag, record.node):
                    part.records.append(record)
                    size += record.size
            if size > most_bytes and at < end:
                at = (at + end) // 2
                part, size = TopicPart(at), 0
        return part

    async def repeated(self, read: Callable[[OffsetRange], Awaitable[TopicPage]], topic: str) -> TopicPage:
        """Returns what `read` returns. If retention removes records meanwhile, reads again."""
        for _ in range(3):
            try:
                return await read(await self.extent(topic))
            except Passed:
                continue
        raise NotReady("Kafka removes the records faster than they are read: send again")

    async def record(self, name: str, seq: int) -> Shown | None:
        """Returns the record with a seq, or None."""
        topic = await self.topics.get(name)
        if not 0 < seq < 2**63:
            return None
        page = await self.after(topic, seq - 1, 1, TagMatch(None, None))
        return page.records[0] if page.records and page.records[0].seq == seq else None


def tombstone(topic: KafkaTopic, extent: OffsetRange, from_seq: int) -> dict[str, Any] | None:
    """Returns the loss above a reader's seq, or None.

    Kafka does not tell retention from a delete. So a topic with a TTL or a cap tells both, and a
    topic without them neither, because there only a delete removes records.
    """
    reason = "recreated" if from_seq > extent.head_seq else topic.reason if from_seq < extent.low else None
    if reason is None:
        return None
    return {
        "gap_from": min(from_seq, extent.low) + 1,
        "gap_to": extent.low,
        "reason": reason,
        "missed_estimate": max(extent.low - from_seq, 0),
        "earliest_seq": extent.earliest_seq,
        "head_seq": extent.head_seq,
    }


def rendered(topic: str, page: TopicPage, wanted: WantedPage, ms: float) -> bytes:
    """Returns the body of a diff's answer."""
    records = b",".join([each.json(tags=wanted.include_tags, meta=wanted.include_meta) for each in page.records])
    told: dict[str, Any] = {
        "next_from_seq": page.next,
        "head_seq": page.extent.head_seq,
        "earliest_seq": page.extent.earliest_seq,
        "caught_up": page.lag == 0,
        "tombstone": page.tombstone,
        "lag": page.lag,
    }
    if page.scanned_to is not None:
        told["scanned_to"] = page.scanned_to
    if clamped := wanted.clamped():
        told["clamped"] = clamped
    told["performance"] = {"server_total_ms": round(ms, 3), "records_scanned": page.scanned}
    return b'{"topic":"%b","records":[%b],%b' % (topic.encode(), records, msgspec.json.encode(told)[1:])
