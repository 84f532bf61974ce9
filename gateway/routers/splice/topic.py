"""A spliced topic: reads that cross from one segment to the next, and the extent of the whole topic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from base.errors import InvalidRequest, TopicNotFound, TopicsError
from contract.reading import PageFields
from gateway.api import Operation, Request, Response, RouterContext
from gateway.rewrite.identifiers import parameter, with_parameter
from gateway.rewrite.names import Raws
from gateway.routers.splice.pages import AnsweredPage, PositionRead, SegmentPage, lost_page, paged, seq_of
from gateway.routers.splice.segments import SEALED, Segment, SegmentRefused, is_sealed

LARGE = 512 * 1024  # bytes of records after which a window ends at the next seam
FRESH_SECONDS = 1.0  # how long the earliest position of an earlier segment is cached


class SplicedExtent(NamedTuple):
    """The head and the earliest position of the whole topic, and whether the last segment is sealed."""

    head: int
    earliest: int
    is_sealed: bool


@dataclass
class SplicedRead:
    """A read of the whole topic. `next`: the position where the reader continues."""

    next: int
    records: list[Raws] = field(default_factory=list)
    pages: list[tuple[Segment, SegmentPage]] = field(default_factory=list)
    tombstone: dict[str, Any] | None = None

    def add(self, segment: Segment, page: SegmentPage) -> None:
        self.pages.append((segment, page))
        self.records += page.records
        self.next = page.next
        self.tombstone = self.tombstone or page.tombstone


@dataclass(frozen=True)
class Spliced:
    """A topic with segments. `seen`: the earliest position of each earlier segment, and the time of the request."""

    name: str
    segments: Sequence[Segment]
    seen: dict[Segment, tuple[float, int | None]] = field(default_factory=dict, compare=False)

    @property
    def last(self) -> Segment:
        return self.segments[-1]

    def at(self, position: int) -> Segment:
        """Returns the segment that a reader at this position reads next."""
        return next(each for each in self.segments if each.end is None or position < each.end)

    def behind(self, segment: Segment) -> Sequence[Segment]:
        return self.segments[self.segments.index(segment) + 1 :]

    def before(self, segment: Segment) -> Sequence[Segment]:
        return self.segments[: self.segments.index(segment)]

    def absent(self) -> TopicNotFound:
        return TopicNotFound(f"topic {self.name!r} does not exist", topic=self.name)

    async def page(
        self,
        context: RouterContext,
        wanted: PositionRead,
        segment: Segment,
        position: int,
        limit: int,
        wait_ms: int = 0,
    ) -> SegmentPage:
        """Returns one segment's records after a position. Raises Refusal, TopicsError."""
        position = max(position, segment.begin)
        request = wanted.request(segment, position - segment.offset, limit, wait_ms)
        response = await segment.ask(context, request)
        if response is not None:
            page = paged(segment, position, await response.decoded(AnsweredPage))
            page.is_sealed = is_sealed(response)
            return page
        if segment.end is None:
            raise self.absent()
        return lost_page(segment, position)

    async def read(self, context: RouterContext, wanted: PositionRead) -> SplicedRead:
        """Returns the next window, which can cross seams. Waits only at the end of the topic. Raises Refusal, TopicsError."""
        window, left = SplicedRead(wanted.from_seq), wanted.limit
        segment = self.at(window.next)
        for each in (segment, *self.behind(segment)):
            has_moved = window.next != wanted.from_seq
            wait_ms = wanted.wait_ms if each is self.last and not has_moved else 0
            page = await self.page(context, wanted, each, window.next, left, wait_ms)
            if has_moved and page.tombstone is not None:
                break  # the next answer starts with the tombstone
            if page.is_behind and len(self.segments) > 1:
                return await self._recreated(context, wanted)
            window.add(each, page)
            used = len(page.records) if wanted.counts_matches else page.scanned
            left = (page.clamped or {}).get("limit", left) - used
            size = sum(len(value) for record in window.records for value in record.values())
            if page.next != each.end or left <= 0 or size > LARGE:
                break
        return window

    async def _recreated(self, context: RouterContext, wanted: PositionRead) -> SplicedRead:
        """Returns the window of a reader above the head.

        Its cursor belongs to another log, so the reader starts at the first record.
        """
        window = await self.read(context, replace(wanted, from_seq=0, wait_ms=0))
        begin = self.segments[0].begin
        whole = {"gap_from": begin + 1, "gap_to": begin, "missed_estimate": 0, "earliest_seq": begin + 1}
        window.tombstone = {**whole, **(window.tombstone or {}), "reason": "recreated"}
        return window

    async def answer(self, context: RouterContext, wanted: PositionRead) -> Response:
        """Returns the answer to a diff or to GET records. Raises Refusal, TopicsError."""
        window = await self.read(context, wanted)
        head, earliest, is_sealed = await self.extent(context, wanted.client, window.pages)
        clamped: dict[str, int] = {}
        for _, page in window.pages:
            clamped = {**(page.clamped or {}), **clamped}
        body: dict[str, Any] = {
            "topic": self.name,
            "records": window.records,
            "next_from_seq": window.next,
            "head_seq": head,
            "earliest_seq": earliest,
            "caught_up": window.next == head,
            "tombstone": window.tombstone and {**window.tombstone, "head_seq": head},
            "lag": head - window.next,
            **({"scanned_to": window.next} if window.pages and window.pages[-1][1].is_short else {}),
            **({"clamped": clamped} if clamped else {}),
            "performance": {
                "server_total_ms": sum(page.ms for _, page in window.pages),
                "records_scanned": sum(page.scanned for _, page in window.pages),
            },
        }
        return Response.json(200, body, SEALED if is_sealed else ())

    async def extent(
        self, context: RouterContext, client: Request, pages: Sequence[tuple[Segment, SegmentPage]] = ()
    ) -> SplicedExtent:
        """Returns the extent of the whole topic.

        `pages`: pages of segments that are already known. Raises TopicNotFound, Refusal, TopicsError.
        """
        known = dict(pages)
        newest, earlier = await asyncio.gather(
            self._newest(context, client, known),
            asyncio.gather(*(self._earliest(context, client, each, known) for each in self.segments[:-1])),
        )
        assert newest.head is not None
        first = next((each for each in (*earlier, newest.earliest) if each is not None), newest.head + 1)
        return SplicedExtent(newest.head, first, newest.is_sealed)

    async def _newest(self, context: RouterContext, client: Request, known: dict[Segment, SegmentPage]) -> SegmentPage:
        """Returns the state of the last segment as a page without records."""
        if self.last in known:
            return known[self.last]
        response = await self.last.ask(context, self.last.request(client, "GET", query="touch=false"))
        if response is None:
            raise self.absent()
        told = await response.decoded()
        first = self.last.first_shown(told["earliest_seq"], told["head_seq"])
        head = self.last.clip(told["head_seq"])
        return SegmentPage([], head, head=head, earliest=first, is_sealed=is_sealed(response))

    async def _earliest(
        self, context: RouterContext, client: Request, segment: Segment, known: dict[Segment, SegmentPage]
    ) -> int | None:
        """Returns an earlier segment's earliest position.

        The result is cached for a second, so that readers at the end need not wait for the segment's server.
        """
        if segment in known:
            return known[segment].earliest
        asked, earliest = self.seen.get(segment, (0.0, None))
        if time.monotonic() - asked < FRESH_SECONDS:
            return earliest
        try:
            response = await segment.ask(context, segment.request(client, "GET", query="touch=false"))
            told = await response.decoded() if response is not None else None
            earliest = segment.first_shown(told["earliest_seq"], told["head_seq"]) if told is not None else None
        except (TopicsError, SegmentRefused):
            earliest = segment.begin + 1  # the server is down: readers at the end continue without the server
        self.seen[segment] = time.monotonic(), earliest
        return earliest

    # -- The start of a read ----------------------------------------------------------------------------------------

    async def wanted(self, context: RouterContext, request: Request) -> PositionRead:
        """Parses a client's read. Raises InvalidRequest, Refusal, TopicsError."""
        if request.operation is Operation.READ:
            body = await request.json(Raws)
            asked = await request.json(PageFields)
        else:
            body = None
            given = {name: parameter(request.query, name) for name in PageFields.__struct_fields__}
            try:
                asked = msgspec.convert({k: v for k, v in given.items() if v is not None}, PageFields, strict=False)
            except msgspec.ValidationError as error:
                raise InvalidRequest(f"invalid query: {error}") from error
        if asked.order == "desc" or asked.tail is not None:
            field = "order" if asked.tail is None else "tail"
            raise InvalidRequest(
                f"the gateway splices {self.name!r} of several logs and reads it in ascending order only: leave {field} out",
                field=field,
            )
        asked.check_start()
        counts_matches = body is None or asked.counts_matches
        found = PositionRead(request, asked.from_seq, asked.limit, asked.wait_ms, body, counts_matches)
        if asked.from_ts is not None:
            found.from_seq = await self.position_at(context, request, asked.from_ts)
            if body is not None:
                del body["from_ts"]
            else:
                found.client = request.replace(query=with_parameter(request.query, "from_ts", None))
        return found

    async def position_at(self, context: RouterContext, client: Request, from_ts: int) -> int:
        """Returns the position before the first record with `$ts` of at least `from_ts`.

        Raises TopicNotFound, Refusal, TopicsError.
        """
        for segment in self.segments:
            query = f"from_ts={from_ts}&limit=1&include_meta=false"
            response = await segment.ask(context, segment.request(client, "GET", "/records", query))
            if response is None:
                continue
            answer = await response.decoded(AnsweredPage)
            seq = seq_of(answer.records[0]) - 1 if answer.records else answer.next_from_seq
            if segment.upto is None or (answer.records and seq < segment.upto):
                return max(seq, segment.start) + segment.offset
        raise self.absent()
