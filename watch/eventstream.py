"""GET /v0/topics/:topic/events: one topic in the form of django-eventstream, for a browser's `EventSource`.

A channel is a topic, an event is a record, and an event's id is the record's seq. We use django-eventstream's request parser
and ids. The library's events have the id in front of the data, and ours behind (contract/sse.py). We do not use
its loop and storage, because the loop queries the storage for each listener in a thread, on every wake-up. Our streams wait in
the event loop. All streams at the same seq share a reading and a rendering (feeds.py). wakes.py explains the use of the
library's listener.
"""

from __future__ import annotations

import time

import msgspec
from django.http import HttpRequest, QueryDict
from django_eventstream.eventrequest import EventRequest
from django_eventstream.utils import make_id

from contract import sse
from http1 import Response
from watch.hub import Hub
from watch.pump import Pump, Send
from watch.reading import Reading, ReadView
from watch.resume import FoundTopic
from wire.access.keys import Key, keyring
from wire.streams import StreamCall

OF_A_PROXY = ("es-meta", "recover")  # with these parameters a proxy identifies itself to django-eventstream
RETRY_SECONDS = 0.5  # before a topic is read again after a failed read
KEEP_ALIVE_SECONDS = 20.0
LIMIT, MAX_BYTES = 100, 1024 * 1024  # of one read
MAX_SEQ = 2**63 - 1

EVENT_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
OPENING = sse.event("stream-open", b"{}")
KEEP_ALIVE = sse.event("keep-alive", b"{}")


class EventSeq(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")


class EventStream(Pump):
    """One open stream. A stream follows its topic by id. After a delete, it waits for a topic of the same name."""

    headers = EVENT_HEADERS
    opening = OPENING

    def __init__(
        self,
        hub: Hub,
        name: str,
        key: Key,
        topic: FoundTopic,
        start: int | None,
        predicate: tuple[str | None, str | None],
        send: Send,
    ) -> None:
        """`start`: the seq that the client names, or None for a stream that starts at the head."""
        super().__init__(hub.loop, send, KEEP_ALIVE_SECONDS)
        self.hub, self.name, self.key, self.topic_id = hub, name, key, topic.topic_id
        self.seq = topic.head_seq if start is None else start  # all records up to this seq were sent, or are not wanted
        # No older reading is used, because older records may have been deleted before the client connected.
        self.since = time.monotonic()
        self.view = ReadView(
            LIMIT, MAX_BYTES, *predicate, True, True, True, strong=False, prefixes=key.prefixes, render=messages
        )
        # The first read also finds the records that were appended between the look at the head and `follow`.
        self.may_be_behind = True
        self.reading: Reading | None = None  # the reading that runs, or is done and not taken
        # This reader does not get a reset that ends here and is due to the topic's predecessors.
        self.told_seq = topic.head_seq if start is None else None
        hub.follow(self.topic_id, self)

    # -- Called by the hub, the feeds and the registry ----------------------------------------------------------------

    def heard(self, head_seq: int) -> None:
        if head_seq != self.seq:
            self.read_soon()

    def read_soon(self) -> None:
        self.may_be_behind = True
        self.wake()

    def vanished(self) -> None:
        """The topic was deleted. No event reports this. The stream sends no records until a topic of this name exists again."""
        self.hub.leave(self.topic_id, self)
        self.hub.seekers[self] = None
        self.may_be_behind, self.reading, self.told_seq = False, None, None

    def appeared(self, topic_id: int) -> None:
        self.hub.seekers.pop(self, None)
        self.hub.follow(topic_id, self)
        self.topic_id = topic_id
        self.read_soon()

    def reading_done(self) -> None:
        self.wake()

    def heartbeat(self) -> bytes:
        return KEEP_ALIVE

    def close(self) -> None:
        super().close()
        self.hub.leave(self.topic_id, self)
        self.hub.seekers.pop(self, None)

    # -- The stream itself --------------------------------------------------------------------------------------------

    def next_frame(self) -> bytes | None:
        while not self.frames and not self.is_ending and (self.reading is not None or self.ask()):
            reading = self.reading
            if reading is None or not reading.done:
                return None
            self.reading = None
            if part := self.taken(reading):
                return part
        return super().next_frame()

    def ask(self) -> bool:
        """Asks for the records after the last sent seq. Returns False if there are none, or the client may not read them."""
        if not self.may_be_behind:
            return False
        if not self.may_read():
            denied = f"Permission denied to channels: {self.name}"
            self.say(stream_error("forbidden", denied, channels=[self.name]))
            self.is_ending = True
            return False
        self.reading = self.hub.feeds.ask(self.name, self.topic_id, self.seq, self.view, self.since)
        if not self.reading.done:
            self.reading.waiting.append(self)
        return True

    def may_read(self) -> bool:
        """Returns True if the key is still valid for this topic. The registry ends streams of invalid keys, but only once a
        second."""
        return keyring.holds(self.key) and "read" in self.key.scopes and self.key.allows(self.name)

    def taken(self, reading: Reading) -> bytes:
        """Advances by a reading. Returns the bytes to send, which may be empty."""
        if reading.error is not None:
            self.may_be_behind = False
            self.loop.call_later(RETRY_SECONDS, self.read_soon)
            return b""
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
            reset = sse.event("stream-reset", msgspec.json.encode(about), since.encode())
            self.told_seq = window.gap_to if window.lost == "recreated" else None
        self.seq = window.next_from_seq
        # The hub notes a head before the call of heard(). The hub's head therefore covers all heads passed to heard() during the
        # wait.
        self.may_be_behind = self.seq < max(window.head_seq, self.hub.heads.get(self.topic_id, 0))
        return reset + reading.batch.record


def messages(topic: str, records: str) -> bytes:
    """Returns a `message` event for each record. A watch stream has one `record` event for all records (frames.record)."""
    each = [bytes(record) for record in msgspec.json.decode(f"[{records}]", type=list[msgspec.Raw])]
    seqs = [msgspec.json.decode(record, type=EventSeq).seq for record in each]
    ids = [make_id({topic: seq}).encode() for seq in seqs]
    return b"".join([sse.event("message", record, id) for record, id in zip(each, ids, strict=True)])


def asked_seq(name: str, call: StreamCall) -> int | Response | None:
    """Returns the seq of the client's last id, None without one, or django-eventstream's refusal."""
    request = HttpRequest()
    request.GET = QueryDict(call.query.decode("latin-1"))
    if call.last_id:
        request.META["HTTP_LAST_EVENT_ID"] = call.last_id
    if strange := [name for name in OF_A_PROXY if name in request.GET]:
        return refusal(f"{strange[0]} is for a GRIP proxy, which this server does not use: leave it out")
    try:
        ids = EventRequest(request, view_kwargs={"channels": [name]}).channel_last_ids
        if name in ids:
            return seq_of(ids[name])
        if given := call.last_id or request.GET.get("lastEventId"):
            raise EventRequest.Error(f"the last id {given[:80]!r} is not from {name}: connect without it")
    except EventRequest.ResumeNotAllowedError as error:
        return Response(400, [(b"content-type", b"text/html; charset=utf-8")], f"Invalid request: {error}.\n".encode())
    except EventRequest.Error as error:
        return refusal(str(error))
    return None


def refusal(why: str) -> Response:
    return Response(200, EVENT_HEADERS, stream_error("bad-request", f"Invalid request: {why}."))


def stream_error(condition: str, text: str, **more: object) -> bytes:
    """Returns the event by which django-eventstream refuses. Its id is `error`, so a client that reconnects is refused again."""
    return sse.event("stream-error", msgspec.json.encode({"condition": condition, "text": text, **more}), b"error")


def seq_of(shown: str) -> int:
    """Returns the last id as an integer. Raises EventRequest.Error if no record can have this id."""
    if not (shown.isascii() and shown.isdigit() and len(shown) <= 19 and int(shown) <= MAX_SEQ):
        raise EventRequest.Error("Failed to parse Last-Event-ID or lastEventId")
    return int(shown)
