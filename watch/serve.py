"""GET /v0/watch/:wid and GET /v0/topics/:topic/events, in plain ASGI: authentication, the refusals, then the stream."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Iterator
from typing import Protocol

import msgspec
from django.core.asgi import get_asgi_application
from django.core.handlers.asgi import ASGIHandler

from base.clock import now_ms
from base.errors import MethodNotAllowed, NotAcceptable, NotFound
from topics.cache import absent
from topics.diff import check_match, match_of
from watch import frames
from watch.api import EventsQuery, StreamQuery
from watch.eventstream import STREAM, EventStream
from watch.outflow import BELOW_BYTES, Outflow, outflows
from watch.registry import Registry, registry
from watch.sessions import Session, take
from watch.stream import Stream
from wire import memory, upload
from wire import shutdown as drain
from wire.asgi import REQUEST, Application, Receive, Scope, Send
from wire.entrance import who_follows
from wire.keys import Key
from wire.limits import under_way
from wire.parse import STRICT, NoFields, Request, parse, parse_query

log = logging.getLogger(__name__)

PREFIX = "/v0/watch/"
HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Pumped(Protocol):
    """A stream that has begun."""

    async def pump(self) -> None:
        """Sends until the stream ends."""

    def hang_up(self) -> None:
        """The client has disconnected."""


class ReadEventsQuery(EventsQuery):
    """All query parameters of django-eventstream, including the parameters refused in eventstream.py."""

    es_meta: str | None = msgspec.field(default=None, name="es-meta")
    recover: str | None = None


async def watch(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves a session's stream to the end. Raises TopicsError before the response starts."""
    headers = dict(scope["headers"])
    key = await enter(scope, headers, StreamQuery)
    last = headers.get(b"last-event-id", b"").decode("latin-1").strip()
    seen = frames.parse_id(last) if last else None
    streams = registry()
    await streams.enter(key)
    try:
        session = await open_session(streams, scope["path"][len(PREFIX) :], key)
        with flowing(scope, send) as outflow:
            stream = Stream(streams.hub, session, key, outflow.send)
            streams.streams[stream] = None
            try:
                await stream.begin(seen)
                await pump(stream, receive, outflow.send)
            finally:
                stream.close()
                stream.was_cut = outflow.is_cut
                del streams.streams[stream]
                streams.closed(stream)
    finally:
        streams.exit(key)


@contextlib.contextmanager
def flowing(scope: Scope, send: Send) -> Iterator[Outflow]:
    """Registers the outflow of an open stream. If the stream was cut because its client takes nothing, the block ends without
    an error."""
    outflow = Outflow(scope, send)
    outflows.add(outflow)
    try:
        yield outflow
    except asyncio.CancelledError:
        if not outflow.is_cut:
            raise
    finally:
        outflows.remove(outflow)
        memory.let_go(BELOW_BYTES)  # an upper bound of the bytes that the client had not taken


async def pump(stream: Pumped, receive: Receive, send: Send) -> None:
    """Sends a stream that has begun, until the stream ends or the client disconnects."""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": frames.RETRY, "more_body": True})
    gone = asyncio.ensure_future(disconnected(receive))
    gone.add_done_callback(lambda _: stream.hang_up())
    try:
        # A task of its own, because each delivery resumes a task twice, and would pass through all our awaiting callers each
        # time.
        await asyncio.create_task(stream.pump())
    except Exception:
        log.exception("A stream failed. Its connection was closed")
    finally:
        gone.cancel()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def events(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves django-eventstream's stream of a topic to the end. Raises TopicsError before the response starts."""
    headers = dict(scope["headers"])
    key = await enter(scope, headers, ReadEventsQuery)
    wanted = parse_query(scope["query_string"], ReadEventsQuery)
    predicate = check_match(None if wanted.match is None else match_of(wanted.match))
    name = scope["path"].split("/")[3]
    key.check("read")
    key.check_name(name)
    streams = registry()
    found = await streams.hub.find([name])
    if name not in found:
        raise absent(name)
    await streams.enter(key)
    topic_id, head_seq = found[name]
    stream = EventStream(streams.hub, name, key, topic_id, head_seq, predicate)
    if wanted.from_seq is not None:
        stream.start_after(wanted.from_seq)
    streams.streams[stream] = None
    try:
        with flowing(scope, send) as outflow:
            await django()({**scope, STREAM: stream}, receive, outflow.send)
    finally:
        stream.close()
        del streams.streams[stream]
        streams.exit(key)


@functools.cache
def django() -> ASGIHandler:
    return get_asgi_application()


def stream_at(path: str) -> Application | None:
    """Returns the handler of this path, or None for a path without a stream."""
    if path.startswith(PREFIX):
        return watch
    if path.startswith("/v0/topics/") and path.endswith("/events") and path.count("/") == 4:
        return events
    return None


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def enter(scope: Scope, headers: dict[bytes, bytes], query: type[Request]) -> Key:
    """Returns the key of the request, after reading the whole request body. Raises TopicsError."""
    drain.check()
    key = await who(scope, headers)
    check_accept(headers)
    parse_query(scope["query_string"], query)
    with under_way(key.holder) as held:
        body = await upload.read(scope[REQUEST], headers, upload.SMALL, held)
    if STRICT:
        parse(body, NoFields)
    return key


async def who(scope: Scope, headers: dict[bytes, bytes]) -> Key:
    """Returns the key of the request. Raises MethodNotAllowed, Unauthorized or NotReady."""
    if scope["method"] != "GET":
        raise MethodNotAllowed(f"this path does not take {scope['method']}: send GET for a stream")
    return await who_follows(scope["query_string"], scope[REQUEST].origin, headers)


async def open_session(streams: Registry, wid: str, key: Key) -> Session:
    """Takes and returns the session for a new stream. Raises NotFound or Forbidden."""
    if "\0" in wid:
        raise NotFound("unknown or expired watch session")
    if any(saved.wid == wid for saved in streams.closing):
        # The session's last stream ended in this process, with unsaved positions. We save the positions first. After another
        # stream has taken the session, SAVE matches no row for the earlier stream.
        await streams.save()
    return await streams.hub.store.drive(take(wid, key, now_ms()))


def check_accept(headers: dict[bytes, bytes]) -> None:
    """Raises NotAcceptable unless the client accepts an event stream. A client without an Accept header accepts anything."""
    accepted = headers.get(b"accept", b"*/*").decode("latin-1").lower()
    for part in accepted.split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        if kind in ("text/event-stream", "text/*", "*/*") and "q=0" not in parameters:
            return
    raise NotAcceptable("a watch stream is text/event-stream: allow it in Accept")
