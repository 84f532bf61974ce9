"""GET /v0/topics/:topic/events: one topic in the form of django-eventstream, for a browser's `EventSource`.

A channel is a topic, an event is a record, and an event's id is the record's seq. We use django-eventstream's request parser,
ids, event encoding and headers. We do not use the library's loop and storage, because the loop queries the storage for each
listener in a thread, on every wake-up. Our streams wait in the event loop. All streams at the same seq share a reading and a
rendering (feeds.py). wakes.py explains the use of the library's listener.
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
from watch.hub import Hub
from watch.reading import Reading, View
from wire.keys import Key, keyring

OF_A_PROXY = ("es-meta", "recover")  # with these parameters a proxy identifies itself to django-eventstream
STREAM = "topics.events"  # key of the request's scope: the EventStream that serve.py has opened
RETRY_SECONDS = 0.5  # before a topic is read again after a failed read
KEEP_ALIVE_SECONDS = 20.0
LIMIT, MAX_BYTES = 100, 1024 * 1024  # of one read
MAX_SEQ = 2**63 - 1

# The padding makes browsers and proxies pass on the first block instead of buffering.
OPENING = b":" + b" " * 2048 + b"\n\nevent: stream-open\ndata:\n\n"
KEEP_ALIVE = b"event: keep-alive\ndata:\n\n"


class Seq(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")


class EventStream:
    """One open stream. A stream follows its topic by id. After a delete, it waits for a topic of the same name.

    All methods run in the hub's event loop, so nothing here needs a lock. Only `parts` and its helpers wait. The hub, the feeds
    and the registry call the other methods meanwhile. These methods wake `parts` through `news`.
    """

    def __init__(
        self, hub: Hub, name: str, key: Key, topic_id: int, seq: int, predicate: tuple[str | None, str | None]
    ) -> None:
        self.hub, self.name, self.key, self.topic_id = hub, name, key, topic_id
        self.seq = seq  # all records up to this seq were sent, or are not wanted
        # No older reading is used, because older records may have been deleted before the client connected.
        self.since = time.monotonic()
        self.view = View(
            LIMIT, MAX_BYTES, *predicate, True, True, True, strong=False, prefixes=key.prefixes, render=messages
        )
        # The first read also finds the records that were appended between the look at the head and `follow`.
        self.may_be_behind = True
        # This reader does not get a reset that ends here and is due to the topic's predecessors.
        self.told_seq: int | None = seq
        self.last_words: bytes | None = None  # the final event of a stream that is to end
        self.news = asyncio.Event()
        hub.follow(topic_id, self)

    def start_after(self, seq: int) -> None:
        """Starts the stream after a seq that the client names, and not at the head."""
        self.seq, self.told_seq = seq, None

    # -- Called by the hub, the feeds and the registry ----------------------------------------------------------------

    def heard(self, head_seq: int) -> None:
        if head_seq != self.seq:
            self.may_be_behind = True
            self.news.set()

    def vanished(self) -> None:
        """The topic was deleted. No event reports this. The stream sends no records until a topic of this name exists again."""
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
        """Sends an `error` event and ends the stream. The event has no id, so an EventSource reconnects with the last record's
        id. After an error in django-eventstream's form, an EventSource would reconnect with an invalid id."""
        if self.last_words is None:
            self.last_words = frames.event("error", code=code, error=message)
            self.news.set()

    def close(self) -> None:
        self.hub.leave(self.topic_id, self)
        self.hub.seekers.pop(self, None)

    # -- The stream itself --------------------------------------------------------------------------------------------

    async def parts(self) -> AsyncIterator[bytes]:
        """Yields the bytes to send until the stream ends."""
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
        """Returns True if the key is still valid for this topic. The registry ends streams of invalid keys, but only once a
        second."""
        return keyring.holds(self.key) and "read" in self.key.scopes and self.key.allows(self.name)

    async def read_on(self) -> bytes:
        """Reads once after the last sent seq. Returns the bytes to send, which may be empty."""
        topic_id = self.topic_id
        reading = self.hub.feeds.ask(self.name, topic_id, self.seq, self.view, self.since)
        if not reading.done:
            reading.waiting.append(self)
        while not reading.done and self.last_words is None:
            await self.wait(None)
        if not reading.done or self.topic_id != topic_id:
            return b""  # the stream ends, or another topic has replaced the topic of this reading
        if reading.error is not None:
            self.may_be_behind = True
            await self.wait(RETRY_SECONDS)
            return b""
        return self.taken(reading)

    def taken(self, reading: Reading) -> bytes:
        """Advances by a reading. Returns the bytes to send."""
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
        # The hub notes a head before the call of heard(). The hub's head therefore covers all heads passed to heard() during the
        # wait.
        self.may_be_behind = self.seq < max(window.head_seq, self.hub.heads.get(self.topic_id, 0))
        return reset + reading.batch.record

    async def wait(self, seconds: float | None) -> bool:
        """Waits for news, at most `seconds`. Returns False after a timeout."""
        try:
            async with asyncio.timeout(seconds):
                await self.news.wait()
        except TimeoutError:
            return False
        self.news.clear()
        return True


def messages(topic: str, records: str) -> bytes:
    """Returns a `message` event for each record. A watch stream has one `record` event for all records (frames.record)."""
    each = [bytes(record) for record in msgspec.json.decode(f"[{records}]", type=list[msgspec.Raw])]
    seqs = [msgspec.json.decode(record, type=Seq).seq for record in each]
    events = (
        sse_encode_event("message", record.decode(), event_id=make_id({topic: seq}))
        for seq, record in zip(seqs, each, strict=True)
    )
    return "".join(events).encode()


async def events(request: HttpRequest, topic: str) -> HttpResponseBase:
    """Responds with the stream that serve.py has opened. serve.py has already checked the key, the topic and the query."""
    stream: EventStream = request.scope[STREAM]
    request.user = AnonymousUser()  # serve.py knows the key; Django would look for a session in the database
    response = respond(request, stream)
    add_default_headers(response, request=request)
    return response


def respond(request: HttpRequest, stream: EventStream) -> HttpResponseBase:
    """Returns the stream, after the client's last id if the request has one. For a bad id, returns django-eventstream's
    refusal."""
    if strange := [name for name in OF_A_PROXY if name in request.GET]:
        return refuse(f"{strange[0]} is for a GRIP proxy, which this server does not use: leave it out")
    try:
        ids = EventRequest(request, view_kwargs={"channels": [stream.name]}).channel_last_ids
        if stream.name in ids:
            stream.start_after(seq_of(ids[stream.name]))
        elif given := request.headers.get("Last-Event-ID") or request.GET.get("lastEventId"):
            raise EventRequest.Error(f"the last id {given[:80]!r} is not from {stream.name}: connect without it")
    except EventRequest.ResumeNotAllowedError as error:
        return HttpResponseBadRequest(f"Invalid request: {error}.\n")
    except EventRequest.Error as error:
        return refuse(str(error))
    return StreamingHttpResponse(stream.parts(), content_type="text/event-stream")


def refuse(why: str) -> HttpResponseBase:
    refusal: HttpResponse = sse_error_response("bad-request", f"Invalid request: {why}.")
    return refusal


def seq_of(shown: str) -> int:
    """Returns the last id as an integer. Raises EventRequest.Error if no record can have this id."""
    if not (shown.isascii() and shown.isdigit() and len(shown) <= 19 and int(shown) <= MAX_SEQ):
        raise EventRequest.Error("Failed to parse Last-Event-ID or lastEventId")
    return int(shown)
