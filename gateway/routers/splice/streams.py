"""Streams of spliced topics: first the records of earlier segments, page by page, then the stream of the last segment.

Earlier segments do not grow, so no read of them has to wait. The gateway stores no state of a stream: the watch id contains the
client's options, and a Last-Event-ID contains the client's position.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from urllib.parse import quote

import msgspec

from base.clock import now_ms
from contract import sse
from contract.operations import EVENT_BYTES, MOST_EVENT_BYTES
from gateway.api import Request, Response, RouterContext
from gateway.rewrite.edits import decoded
from gateway.rewrite.frames import Frame, closed, frames
from gateway.rewrite.identifiers import parameter
from gateway.rewrite.names import Raws, encoded_id, rename_frame
from gateway.rewrite.seqs import shift_frame
from gateway.routers.splice.pages import PositionRead, SegmentPage
from gateway.routers.splice.segments import SegmentRefused
from gateway.routers.splice.topic import Spliced

RETRY = b"retry: 2000\n"  # the first line of the first event, because some clients take it alone for an event
LOOK_SECONDS = 1.0  # between checks for a deleted topic, and between reads of the head during the earlier segments
LATE = ("cap", "ttl", "mixed", "restart")  # reasons that a stream reports as from_seq_too_old at its start
IN_DIFF = ("node", "limit", "include_meta", "include_tags")  # options that a watch shares with a diff
Options = dict[str, Any]


class SplicedStream:
    """The stream of one spliced topic after a position. `open` prepares the first frame, and raises if the frame is refused."""

    def __init__(self, topic: Spliced, context: RouterContext, client: Request, position: int) -> None:
        self.topic, self.context, self.client, self.position = topic, context, client, position
        self.head, self.looked = 0, 0.0
        self.first: bytes | None = None
        self.frames = self.all()

    async def open(self) -> None:
        """Prepares the first frame. Raises Refusal, TopicsError."""
        self.first = await anext(self.frames)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.first is not None:
            first, self.first = self.first, None
            return first
        return await anext(self.frames)

    async def aclose(self) -> None:
        await self.frames.aclose()

    async def all(self) -> AsyncGenerator[bytes]:
        wanted = self.wanted()
        is_first = True
        while (segment := self.topic.at(self.position)).end is not None:
            page = await self.topic.page(self.context, wanted, segment, self.position, wanted.limit)
            await self.look()
            if is_first:
                yield self.opening()
            for position, frame in self.told(page, is_first):
                self.position = position
                yield frame
            self.position, is_first = page.next, False
        async for frame in self.live():
            yield frame

    async def look(self) -> None:
        """Refreshes the head, which the frames of earlier segments contain."""
        if time.monotonic() - self.looked >= LOOK_SECONDS:
            self.head = (await self.topic.extent(self.context, self.client)).head
            self.looked = time.monotonic()

    async def followed(self, response: Response) -> AsyncGenerator[bytes]:
        """Yields the frames of the last segment's stream, in the client's names and positions."""
        last = self.topic.last
        try:
            async for each in frames(response.body):  # type: ignore[arg-type]
                frame = Frame(each)
                rename_frame(frame, last.renaming.to_client)
                shift_frame(frame, last.offset)
                if frame.event == b"topic-deleted":
                    told = decoded(msgspec.Raw(frame.data or b"{}"), dict[str, Any]) or {}
                    frame.id = encoded_id({self.topic.name: told.get("head_seq", last.begin)})
                yield frame.encoded()
        finally:
            await closed(response.body)

    def wanted(self) -> PositionRead:
        """Returns the read for pages of earlier segments."""
        raise NotImplementedError

    def opening(self) -> bytes:
        return RETRY

    def told(self, page: SegmentPage, is_first: bool) -> list[tuple[int, bytes]]:
        """Returns the frames of a page, each with the client's position after the frame."""
        raise NotImplementedError

    def live(self) -> AsyncGenerator[bytes]:
        """Yields the frames of the last segment's stream."""
        raise NotImplementedError


class WatchStream(SplicedStream):
    """A stream in the format of a watch.

    `options`: the body of the watch without its topics. `more`: the watch's options of this topic, except for the start.
    """

    def __init__(
        self, topic: Spliced, context: RouterContext, client: Request, position: int, options: Options, more: Options
    ) -> None:
        self.options, self.more = options, more
        super().__init__(topic, context, client, position)

    def wanted(self) -> PositionRead:
        body: Options = {key: self.options[key] for key in IN_DIFF if key in self.options}
        body |= self.more
        return PositionRead(self.client, 0, body.pop("limit", 256), body=body)

    def told(self, page: SegmentPage, is_first: bool) -> list[tuple[int, bytes]]:
        found = []
        position = self.position
        if page.tombstone is not None:
            position = page.tombstone["gap_to"]
            found.append(self.event("tombstone", position, **self.tombstone(page.tombstone, is_first)))
        for records in self.batches(page.records):
            to = page.next if records[-1] is page.records[-1] else msgspec.json.decode(records[-1]["$seq"], type=int)
            found.append(self.event("record", to, records=records, from_seq=position, to_seq=to, head_seq=self.head))
            position = to
        if position != page.next:
            found.append(
                (page.next, sse.id_line(self.id(page.next)) + b"\n")
            )  # the id alone advances the client's position
        return found

    def batches(self, records: list[Raws]) -> list[list[Raws]]:
        """Returns the records of each event: at least one, and as many as the limit of bytes allows."""
        most = min(self.options.get("max_batch_bytes", EVENT_BYTES), MOST_EVENT_BYTES)
        found: list[list[Raws]] = []
        size = most + 1
        for record in records:
            if not self.options.get("include_data", True):
                del record["data"]
            own = sum(len(bytes(value)) for value in record.values())
            if size + own > most:
                found.append([])
                size = 0
            found[-1].append(record)
            size += own
        return found

    def tombstone(self, tombstone: dict[str, Any], is_first: bool) -> dict[str, Any]:
        told = {key: value for key, value in tombstone.items() if key != "missed_estimate"} | {"head_seq": self.head}
        if is_first and told["reason"] in LATE:
            told |= {"cause": told["reason"], "reason": "from_seq_too_old"}
        return told

    def id(self, position: int) -> bytes:
        return encoded_id({self.topic.name: position})

    def event(self, event: str, position: int, **data: Any) -> tuple[int, bytes]:
        text = msgspec.json.encode({"topic": self.topic.name, **data})
        return position, sse.event(event, text, self.id(position))

    async def live(self) -> AsyncGenerator[bytes]:
        has_told = False
        while (wid := await self.begin()) is None:
            if not has_told:
                gone = {"head_seq": self.position, "reason": "deleted"}
                yield self.event("topic-deleted", self.position, **gone)[1]
                has_told = True
            await asyncio.sleep(LOOK_SECONDS)
            yield b": hb %d\n\n" % now_ms()
        last = self.topic.last
        asked = last.request(self.client, "GET").replace(path=f"/v0/watch/{quote(wid, safe='')}")
        response = await last.ask(
            self.context, asked.replace(headers=[*asked.headers, (b"accept", b"text/event-stream")])
        )
        if response is None:
            raise self.topic.absent()
        async for frame in self.followed(response):
            yield frame

    async def begin(self) -> str | None:
        """Starts a watch of the last segment after this position. Returns its wid, or None while the topic is absent."""
        told = await begun(self.topic, self.context, self.client, self.position, self.options, self.more)
        return told["wid"] if told is not None else None


async def begun(
    topic: Spliced, context: RouterContext, client: Request, position: int, options: Options, more: Options
) -> dict[str, Any] | None:
    """Returns the answer to a watch of the last segment, or None if the topic is absent. Raises Refusal, TopicsError."""
    last = topic.last
    start = {"from_seq": max(position, last.begin) - last.offset}
    body = {**options, "topics": {last.topic: {**start, **more}}}
    response = await last.ask(context, last.request(client, "POST", body=body).replace(path="/v0/watch"))
    return await response.decoded() if response is not None else None


class EventsStream(SplicedStream):
    """A stream in the format of django-eventstream: a `message` for each record that matches."""

    @property
    def match(self) -> str:
        """Returns the predicate of the client as a part of a query, or an empty text."""
        match = parameter(self.client.query, "match")
        return "" if match is None else f"&match={quote(match, safe='')}"

    def wanted(self) -> PositionRead:
        client = self.client.replace(query="include_tags=true" + self.match)
        return PositionRead(client, 0, 100, counts_matches=True)

    def opening(self) -> bytes:
        return sse.event("stream-open", b"{}")

    def told(self, page: SegmentPage, is_first: bool) -> list[tuple[int, bytes]]:
        name, found = self.topic.name, []
        if page.tombstone is not None:
            about = {"channels": [name], **{k: v for k, v in page.tombstone.items() if k == "lost_from"}}
            found.append(self.event("stream-reset", page.tombstone["gap_to"], about))
        for record in page.records:
            found.append(self.event("message", msgspec.json.decode(record["$seq"], type=int), record))
        return found

    def event(self, event: str, position: int, data: Any) -> tuple[int, bytes]:
        return position, sse.event(event, msgspec.json.encode(data), f"{self.topic.name}:{position}".encode())

    async def live(self) -> AsyncGenerator[bytes]:
        async for frame in self.followed(await self.connect()):
            yield frame

    async def connect(self) -> Response:
        """Returns the last segment's stream after this position. Raises TopicNotFound, Refusal, TopicsError."""
        last = self.topic.last
        shown = f"lastEventId={quote(f'{last.topic}:{max(self.position, last.begin) - last.offset}', safe='')}"
        asked = last.request(self.client, "GET", "/events", shown + self.match)
        response = await last.ask(
            self.context, asked.replace(headers=[*asked.headers, (b"accept", b"text/event-stream")])
        )
        if response is None:
            raise self.topic.absent()
        if isinstance(response.body, bytes):
            raise SegmentRefused(response)
        return response
