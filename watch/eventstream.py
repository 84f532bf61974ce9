"""GET /v0/topics/:topic/events: one topic in the form of django-eventstream, for a browser's `EventSource`.

A channel is a topic, an event a record, an event's id the record's seq. We use django-eventstream's reading of the
request, its ids, its encoding of events and its headers. Its loop and its storage are not used: for each listener the
loop asks the storage in a thread and on every wake-up. Our streams wait in the event loop, and share what is read and
rendered with all that are at the same seq (feeds.py). wakes.py says how we use its listener.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseBase, StreamingHttpResponse
from django_eventstream.eventrequest import EventRequest
from django_eventstream.utils import (
    add_default_headers,
    make_id,
    sse_encode_error,
    sse_encode_event,
    sse_error_response,
)

from watch import frames
from watch.feeds import Reading, View
from watch.hub import Hub
from wire.keys import Key, keyring

OF_A_PROXY = ("es-meta", "recover")  # parameters with which a proxy tells django-eventstream who it is
STREAM = "topics.events"  # in the request's scope: the EventStream that serve.py has opened
RETRY_SECONDS = 0.5  # before a topic is read again that could not be read
KEEP_ALIVE_SECONDS = 20.0
LIMIT, MAX_BYTES = 100, 1024 * 1024  # of one read
MAX_SEQ = 2**63 - 1

# The padding makes browsers and proxies that gather a first block let go of it.
OPENING = b":" + b" " * 2048 + b"\n\nevent: stream-open\ndata:\n\n"
KEEP_ALIVE = b"event: keep-alive\ndata:\n\n"


class Seq(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")


class EventStream:
    """One open stream, which follows its topic by id while the topic is there, and else waits for its name.

    All methods run in the hub's event loop, so nothing here needs a lock. `parts` is the only one that waits; the
    others are called by the hub, the feeds and the registry while it does, and wake it up through `news`.
    """

    def __init__(self, hub: Hub, name: str, key: Key, topic_id: int, seq: int) -> None:
        self.hub, self.name, self.key, self.topic_id = hub, name, key, topic_id
        self.seq = seq  # all records up to this one were sent, or are not wanted
        # Nobody is shown what was read before he came: it may have been deleted since.
        self.since = time.monotonic()
        self.view = View(
            LIMIT, MAX_BYTES, None, None, True, True, True, strong=False, prefixes=key.prefixes, render=messages
        )
        # The first read also finds what was appended between the look at the head and our following of the topic.
        self.may_be_behind = True
        self.told_seq: int | None = (
            seq  # a reset because of a topic's predecessors that ends here is not for this reader
        )
        self.last_words: bytes | None = None  # this stream is to end, and this is why
        self.news = asyncio.Event()
        hub.follow(topic_id, self)

    # -- What others call ---------------------------------------------------------------------------------------------

    def heard(self, head_seq: int) -> None:
        if head_seq != self.seq:
            self.may_be_behind = True
            self.news.set()

    def vanished(self) -> None:
        """The topic was deleted. There is no event for that: the stream is quiet until the name is there again."""
        self.hub.leave(self.topic_id, self)
        self.hub.seekers[self] = None
        self.may_be_behind, self.told_seq = False, None

    def appeared(self, topic_id: int) -> None:
        self.hub.seekers.pop(self, None)
        self.hub.follow(topic_id, self)
        self.topic_id, self.may_be_behind = topic_id, True
        self.news.set()

    def reading_done(self) -> None:
        self.news.set()

    def end(self, code: str, message: str) -> None:
        """Say why, and end. The event has no id, so an EventSource shows the last record's when it comes back; after
        one of django-eventstream's own errors it would show an id that is refused."""
        if self.last_words is None:
            self.last_words = frames.event("error", code=code, error=message)
            self.news.set()

    def close(self) -> None:
        self.hub.leave(self.topic_id, self)
        self.hub.seekers.pop(self, None)

    # -- The stream itself --------------------------------------------------------------------------------------------

    async def parts(self) -> AsyncIterator[bytes]:
        """What is sent, until the stream is ended."""
        yield OPENING
        while self.last_words is None:
            if self.may_be_behind and not self.may_read():
                denied = f"Permission denied to channels: {self.name}"
                yield sse_encode_error("forbidden", denied, extra={"channels": [self.name]}).encode()
                return
            if self.may_be_behind:
                if part := await self.read_on():
                    yield part
            elif not await self.wait(KEEP_ALIVE_SECONDS):
                yield KEEP_ALIVE
        yield self.last_words

    def may_read(self) -> bool:
        """Whether the key still holds. The registry ends the streams of a key that does not, but only each second."""
        return keyring.holds(self.key) and "read" in self.key.scopes and self.key.allows(self.name)

    async def read_on(self) -> bytes:
        """Read once behind what was sent. Returns what there is to send, which may be nothing."""
        topic_id = self.topic_id
        reading = self.hub.feeds.ask(self.name, topic_id, self.seq, self.view, self.since)
        if not reading.done:
            reading.waiting.append(self)
        while not reading.done and self.last_words is None:
            await self.wait(None)
        if not reading.done or self.topic_id != topic_id:
            return b""  # the stream ends, or this was read of a topic that has another in its place by now
        if reading.error is not None:
            self.may_be_behind = True
            await self.wait(RETRY_SECONDS)
            return b""
        return self.taken(reading)

    def taken(self, reading: Reading) -> bytes:
        """Move on by what was read. Returns what there is to send."""
        if reading.batch is None:
            self.vanished()
            return b""
        window, reset = reading.batch.window, b""
        if self.told_seq == self.seq:
            window = window.for_a_start_at(self.seq)
        if window.lost is not None:
            about: dict[str, object] = {"channels": [self.name]}
            if window.lost_from is not None:
                about["lost_from"] = window.lost_from
            since = make_id({self.name: window.gap_to})
            reset = sse_encode_event("stream-reset", about, event_id=since, json_encode=True).encode()
            self.told_seq = window.gap_to if window.lost == "recreated" else None
        self.seq = window.next_from_seq
        # Whatever heard() was told while we waited, the hub had noted it first: one look at its head covers it all.
        self.may_be_behind = self.seq < max(window.head_seq, self.hub.heads.get(self.topic_id, 0))
        return reset + reading.batch.record

    async def wait(self, seconds: float | None) -> bool:
        """Wait for news. Returns False when none came in time."""
        try:
            async with asyncio.timeout(seconds):
                await self.news.wait()
        except TimeoutError:
            return False
        self.news.clear()
        return True


def messages(topic: str, records: str, from_seq: int, to_seq: int, head_seq: int) -> bytes:
    """A `message` event for each record, where a watch stream has one `record` event for all (frames.record)."""
    each = [bytes(record) for record in msgspec.json.decode(f"[{records}]", type=list[msgspec.Raw])]
    seqs = [msgspec.json.decode(record, type=Seq).seq for record in each]
    events = (
        sse_encode_event("message", record.decode(), event_id=make_id({topic: seq}))
        for seq, record in zip(seqs, each, strict=True)
    )
    return "".join(events).encode()


async def events(request: HttpRequest, topic: str) -> HttpResponseBase:
    """The view, once serve.py has seen who asks and that the topic is there, and has opened a stream at its head."""
    stream: EventStream = request.scope[STREAM]
    request.user = AnonymousUser()  # serve.py knows whose key it is; Django would look for a session in the database
    response = respond(request, stream)
    add_default_headers(response, request=request)
    return response


def respond(request: HttpRequest, stream: EventStream) -> HttpResponseBase:
    """The stream, from the client's last id on if it shows one; or what django-eventstream says of a bad id."""
    if strange := [name for name in OF_A_PROXY if name in request.GET]:
        return refuse(f"{strange[0]} is for a GRIP proxy, and there is none before this server")
    try:
        shown = EventRequest(request, view_kwargs={"channels": [stream.name]}).channel_last_ids.get(stream.name)
        if shown is not None:
            stream.seq, stream.told_seq = seq_of(shown), None
    except EventRequest.ResumeNotAllowedError as error:
        return HttpResponseBadRequest(f"Invalid request: {error}.\n")
    except EventRequest.Error as error:
        return refuse(str(error))
    return StreamingHttpResponse(stream.parts(), content_type="text/event-stream")


def refuse(why: str) -> HttpResponseBase:
    refusal: HttpResponse = sse_error_response("bad-request", f"Invalid request: {why}.")
    return refusal


def seq_of(shown: str) -> int:
    """Raises EventRequest.Error for a last id that no record can have."""
    if not (shown.isascii() and shown.isdigit() and len(shown) <= 19 and int(shown) <= MAX_SEQ):
        raise EventRequest.Error("Failed to parse Last-Event-ID or lastEventId")
    return int(shown)
