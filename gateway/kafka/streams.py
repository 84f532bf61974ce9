"""Streams of events: a watch of several topics, and the events of one topic in the form of django-eventstream (docs/watch.md).

A watch id holds the whole watch, because a gateway keeps nothing. The gateway signs it (rewrite/identifiers.py). The id of an
event has the seq of each topic, and under `$kafka` the id of each Kafka topic, which tells it from another one of its name.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from base.errors import InvalidRequest, NotReady, TopicsError
from contract import sse
from contract.operations import MOST_EVENT_BYTES
from contract.reading import Seq
from contract.watching import SelectionFields, StartFields
from gateway.api import Request, Response
from gateway.kafka.client import absent
from gateway.kafka.following import EventSize, FollowedPart, TopicFollower
from gateway.kafka.messages import Shown
from gateway.kafka.pages import TopicPages
from gateway.kafka.shapes import MAX_LIMIT, GivenFields, TagMatch, match_of, query_as
from gateway.kafka.version import ClusterVersion
from gateway.rewrite.frames import STREAM_HEADERS, check_accept
from gateway.rewrite.identifiers import no_session, parameter
from gateway.rewrite.names import decoded_id, encoded_id

RETRY = b"retry: 2000\n"
OPENING, KEEP_ALIVE = sse.event("stream-open", b"{}"), sse.event("keep-alive", b"{}")
KEEP_ALIVE_SECONDS = 20.0
LOOK_SECONDS = 1.0  # for topics that were deleted, and after a failed read
SESSION_TTL_MS = 300_000
IDS = "$kafka"
LONGEST_WID = 32_000  # characters: the head of a request has 64 KiB
LATE = ("cap", "ttl", "mixed")
NO_ID_OF_THIS_STREAM = "invalid Last-Event-ID: this stream gave out other ids. Connect without it"


class WatchStart(StartFields, GivenFields):
    """The start of a topic in a watch."""


class GivenWatch(SelectionFields, GivenFields):
    topics: dict[str, WatchStart]
    heartbeat_ms: Annotated[int, Meta(ge=1000, le=60_000)] = 15_000


class KeptWatch(msgspec.Struct):
    """The content of a watch id: the watch with its starts as seqs, and the Kafka topic of each."""

    watch: GivenWatch
    ids: dict[str, str]


class WatchOptions(GivenFields):
    lenient: bool = False


class StreamOptions(GivenFields):
    last_event_id: str | None = msgspec.field(name="lastEventId", default=None)


class EventsOptions(StreamOptions):
    from_seq: Seq | None = None
    match: str | None = None


# -- Watch -----------------------------------------------------------------------------------------------------------------


async def begin(pages: TopicPages, wanted: GivenWatch, *, lenient: bool) -> dict[str, Any]:
    """Returns the answer to a POST of a watch. Raises TopicsError."""
    if not 0 < len(wanted.topics) <= 256:
        raise InvalidRequest(f"{len(wanted.topics)} topics: expected 1 to 256", field="topics")
    kept, told, missing = KeptWatch(wanted, {}), dict[str, Any](), None
    starts = {}
    for name, start in wanted.topics.items():
        TagMatch(start.match, wanted.node)
        start.check(name)
        topic = await pages.topics.find(name)
        if topic is None:
            missing = name
            continue
        extent = await pages.extent(name)
        seq = extent.head_seq if start.tail else start.from_seq or 0
        if start.from_ts is not None:
            seq = await pages.seq_before(name, start.from_ts)
        starts[name], kept.ids[name] = WatchStart(from_seq=seq, match=start.match), topic.id
        told[name] = {"from_seq": seq, "head_seq": extent.head_seq, "earliest_seq": extent.earliest_seq}
    if missing is not None and not (lenient and told):
        raise absent(missing)
    wanted.topics = starts
    wid = base64.urlsafe_b64encode(msgspec.json.encode(kept)).decode().rstrip("=")
    if len(wid) > LONGEST_WID:
        raise InvalidRequest(
            "topics: too many topics, or too long names, for one watch: create several", field="topics"
        )
    clamped = {"limit": MAX_LIMIT} if wanted.limit > MAX_LIMIT else {}
    clamped |= {"max_batch_bytes": MOST_EVENT_BYTES} if wanted.max_batch_bytes > MOST_EVENT_BYTES else {}
    times = {"session_ttl_ms": SESSION_TTL_MS, "first_ttl_ms": SESSION_TTL_MS}
    body = {"wid": wid, "stream_url": f"/v0/watch/{wid}", **times, "topics": told}
    return {**body, "clamped": clamped} if clamped else body


def follow(kafka: ClusterVersion, request: Request) -> Response:
    """Returns the stream of a watch. Raises NotFound, NotAcceptable, InvalidRequest."""
    check_accept(request)
    try:
        text = (request.name or "").encode()
        kept = msgspec.json.decode(base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)), type=KeptWatch)
    except (ValueError, msgspec.MsgspecError) as error:
        raise no_session() from error
    position: dict[str, Any] = {name: start.from_seq for name, start in kept.watch.topics.items()}
    ids: Mapping[str, str] = kept.ids
    if shown := last_id(request):
        position = decoded_id(shown)
        ids = position.pop(IDS, {})
        if not all(isinstance(seq, int) and seq >= 0 for seq in position.values()) or not isinstance(ids, dict):
            raise InvalidRequest(NO_ID_OF_THIS_STREAM)
    return Response(200, STREAM_HEADERS, KafkaWatch(kafka, kept.watch, position, ids).parts())


class KafkaWatch:
    """The events of a watch from a position on. A topic that is not in the position was deleted, and the client knows."""

    def __init__(
        self, kafka: ClusterVersion, watch: GivenWatch, position: Mapping[str, int], ids: Mapping[str, str]
    ) -> None:
        self.watch = watch
        self.followers: dict[str, TopicFollower] = {}
        self.news = asyncio.Event()
        self.live: set[str] = set()
        self.is_troubled = False  # Kafka did not answer
        self.first = set(watch.topics)  # topics of which nothing was sent yet
        for name, start in watch.topics.items():
            match = TagMatch(start.match, watch.node)
            size = EventSize(min(watch.limit, MAX_LIMIT), min(watch.max_batch_bytes, MOST_EVENT_BYTES))
            follower = TopicFollower(kafka, name, position.get(name, 0), ids.get(name), match, size)
            follower.news, follower.is_gone = self.news, name not in position
            self.followers[name] = follower

    async def parts(self) -> AsyncIterator[bytes]:
        retry, beat = RETRY, time.monotonic()
        try:
            while True:
                self.news.clear()
                has_sent = self.is_troubled = False
                for name, follower in self.followers.items():
                    for frame in await self.of(name, follower):
                        yield retry + frame
                        retry, has_sent = b"", True
                if has_sent:
                    beat = time.monotonic()
                    continue
                due = beat + self.watch.heartbeat_ms / 1000
                await self.wait(min(due - time.monotonic(), self.patience))
                if time.monotonic() >= due:
                    beat = time.monotonic()
                    yield retry + b": hb %d\n\n" % int(time.time() * 1000)
                    retry = b""
        finally:
            for follower in self.followers.values():
                follower.close()

    @property
    def patience(self) -> float:
        """Seconds until the next look, if no news come."""
        is_short = self.is_troubled or any(each.ring is None for each in self.followers.values())
        return LOOK_SECONDS if is_short else 60.0

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self.news.wait()
        except TimeoutError:
            pass

    async def of(self, name: str, follower: TopicFollower) -> list[bytes]:
        """Returns the next frames of a topic."""
        try:
            part = await follower.next()
        except NotReady:
            self.is_troubled = True
            return []
        frames: list[bytes] = []
        if part is not None:
            frames = self.frames(name, part)
            if part.deleted:
                self.live.discard(name)
                return frames
        if follower.ring is not None and name not in self.live and not follower.is_gone:
            self.live.add(name)
            frames.append(event("caught-up", self.id, topic=name, head_seq=follower.seq))
        return frames

    def frames(self, name: str, part: FollowedPart) -> list[bytes]:
        if part.deleted:
            return [event("topic-deleted", self.id, topic=name, head_seq=part.head_seq, reason="deleted")]
        found: list[bytes] = []
        is_first = name in self.first
        self.first.discard(name)
        if part.lost is not None:
            found.append(self.tombstone(name, part, is_first=is_first))
        watch = self.watch
        if part.records:
            texts = [
                each.json(tags=watch.include_tags, meta=watch.include_meta, data=watch.include_data)
                for each in part.records
            ]
            head = b'{"topic":"%b","records":[%b],"from_seq":%d,"to_seq":%d,"head_seq":%d}' % (
                name.encode(),
                b",".join(texts),
                part.from_seq,
                part.to_seq,
                max(part.head_seq, part.to_seq),
            )
            found.append(sse.event("record", head, self.id))
        return found

    def tombstone(self, name: str, part: FollowedPart, *, is_first: bool) -> bytes:
        lost = dict(part.lost or {})
        lost.pop("missed_estimate", None)
        if is_first and lost["reason"] in LATE:
            lost |= {"cause": lost["reason"], "reason": "from_seq_too_old"}
        position, ids = self.position
        return event("tombstone", encoded_id({**position, name: lost["gap_to"], IDS: ids}), topic=name, **lost)

    @property
    def position(self) -> tuple[dict[str, int], dict[str, str]]:
        here = {name: each for name, each in self.followers.items() if not each.is_gone}
        return {name: each.seq for name, each in here.items()}, {
            name: each.id for name, each in here.items() if each.id
        }

    @property
    def id(self) -> bytes:
        position, ids = self.position
        return encoded_id({**position, IDS: ids})


def event(name: str, id: bytes, **data: Any) -> bytes:
    return sse.event(name, msgspec.json.encode(data), id)


def last_id(request: Request) -> str:
    shown = (request.header(b"last-event-id") or b"").decode("latin-1").strip()
    return shown or (parameter(request.query, "lastEventId") or "").strip()


# -- Events of one topic -----------------------------------------------------------------------------------------------------


async def events(kafka: ClusterVersion, request: Request, name: str) -> Response:
    """Returns the stream of one topic. Raises TopicsError."""
    check_accept(request)
    options = query_as(request.query, EventsOptions)
    match = TagMatch(match_of(options.match), None)
    topic = await kafka.topics.get(name)
    seq = (await kafka.pages.extent(name)).head_seq if options.from_seq is None else options.from_seq
    if shown := last_id(request):
        of, _, number = shown.rpartition(":")
        if of != name or not (number.isascii() and number.isdigit() and len(number) <= 18):
            error = {
                "condition": "bad-request",
                "text": f"Invalid request: the last id is not from {name}: connect without it.",
            }
            return Response(200, STREAM_HEADERS, event("stream-error", b"error", **error))
        seq = int(number)
    follower = TopicFollower(kafka, name, seq, topic.id, match, EventSize(100, MOST_EVENT_BYTES))
    return Response(200, STREAM_HEADERS, event_parts(follower))


async def event_parts(follower: TopicFollower) -> AsyncIterator[bytes]:
    yield OPENING
    sent = time.monotonic()
    try:
        while True:
            follower.news.clear()
            try:
                part = await follower.next()
            except TopicsError:
                part = None
                await asyncio.sleep(LOOK_SECONDS)
            if part is not None and (frames := message_frames(follower.name, part)):
                sent = time.monotonic()
                yield frames
                continue
            if part is not None and not part.deleted:
                continue
            left = min(sent + KEEP_ALIVE_SECONDS - time.monotonic(), LOOK_SECONDS if follower.ring is None else 60.0)
            try:
                async with asyncio.timeout(max(left, 0)):
                    await follower.news.wait()
            except TimeoutError:
                if time.monotonic() >= sent + KEEP_ALIVE_SECONDS:
                    sent = time.monotonic()
                    yield KEEP_ALIVE
    finally:
        follower.close()


def message_frames(name: str, part: FollowedPart) -> bytes:
    """Returns the bytes of a part: a reset for a loss, and a message for each record."""
    reset = b""
    if part.lost is not None:
        reset = event("stream-reset", b"%b:%d" % (name.encode(), part.lost["gap_to"]), channels=[name])
    return reset + b"".join([message_frame(name, each) for each in part.records])


def message_frame(name: str, record: Shown) -> bytes:
    return sse.event("message", record.json(tags=True, meta=True), b"%b:%d" % (name.encode(), record.seq))
