"""The streams of watch sessions and of one topic, from their declarations to their ends."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from base.clock import now_ms
from base.errors import NotFound, TopicNotFound
from contract.operations import Operation
from http1 import Response
from topics.cache import absent
from topics.read.diff import check_match, match_of
from watch import eventstream, frames
from watch.api import TAG, EventsQuery, StreamQuery
from watch.events import OF_TOPIC, OF_WATCH
from watch.eventstream import EventStream
from watch.outflow import Outflow, outflows
from watch.pump import Pump
from watch.registry import Registry, registry
from watch.resume import FoundTopic
from watch.sessions import Session, take
from watch.stream import Stream
from wire.access.keys import Key
from wire.process import shutdown
from wire.streams import StreamCall, StreamEndpoint

log = logging.getLogger(__name__)


class ReadEventsQuery(EventsQuery):
    """All query parameters of django-eventstream, including the parameters refused in eventstream.py."""

    es_meta: str | None = msgspec.field(default=None, name="es-meta")
    recover: str | None = None


@StreamEndpoint(
    Operation.FOLLOW_WATCH,
    scope="read",
    query=StreamQuery,
    events=OF_WATCH,
    tag=TAG,
    headers={"Last-Event-ID": "The last received id. The stream continues after this id."},
)
async def watch(call: StreamCall, key: Key, query: StreamQuery, wid: str) -> None:
    """Follow the topics of a session.

    The stream has no end. It sends the events `record`, `caught-up`, `tombstone`, `topic-deleted` and `error`, with JSON
    data. After `heartbeat_ms` without an event it sends a comment. A new connection continues at the saved position.
    The page `/v0/docs` shows the first two seconds of the stream."""
    last = call.last_id or query.last_event_id or ""
    seen = frames.parse_id(last) if last else None
    streams = registry()
    async with streams.place(key):
        session, outflow = await open_session(streams, wid, key), Outflow(call.writer)
        stream = Stream(streams.hub, session, key, outflow.send, seen)
        try:
            await serve(stream, outflow, key)
        finally:
            streams.closed(stream)


@StreamEndpoint(
    Operation.FOLLOW_TOPIC,
    scope="read",
    query=EventsQuery,
    parsed=ReadEventsQuery,
    events=OF_TOPIC,
    errors=(TopicNotFound,),
    tag=TAG,
    headers={"Last-Event-ID": "The last received id, `topic:seq`. The stream continues after this id."},
)
async def events(call: StreamCall, key: Key, query: EventsQuery, name: str) -> None:
    """Follow one topic without a session.

    The stream has no end. It sends a `message` event with the id `topic:seq` for each new record, `stream-reset` if records
    were lost, and `keep-alive` every 20 s. The page `/v0/docs` shows the first two seconds of the stream."""
    predicate = check_match(None if query.match is None else match_of(query.match))
    key.check("read")
    key.check_name(name)
    streams = registry()
    found = await streams.hub.find([name])
    if name not in found:
        raise absent(name)
    asked = eventstream.asked_seq(name, call)
    if isinstance(asked, Response):
        call.writer.send(asked)
        return
    async with streams.place(key):
        outflow = Outflow(call.writer)
        start = query.from_seq if asked is None else asked
        stream = EventStream(streams.hub, name, key, FoundTopic(*found[name]), start, predicate, outflow.send)
        await serve(stream, outflow, key)


async def serve(stream: Pump, outflow: Outflow, key: Key | None) -> None:
    """Serves a stream to its end. Raises TopicsError if the stream cannot begin, before the answer starts.

    `key`: the stream ends when the key becomes invalid. None: a stream of the console, which is limited in time.
    """
    with registry().listed(stream, key), outflows.flowing(outflow):
        try:
            await stream.begin()
            await send(stream, outflow)
        finally:
            stream.close()
            stream.was_cut = outflow.is_cut


async def send(stream: Pump, outflow: Outflow) -> None:
    """Sends a stream that has begun, until the stream ends or the client disconnects."""
    writer = outflow.writer
    writer.begin(Response(200, stream.headers))
    await outflow.send(stream.opening)
    writer.gone.add_done_callback(lambda _: stream.hang_up())
    try:
        # A task of its own, because each delivery resumes a task twice, and would pass through all our awaiting callers each
        # time.
        await asyncio.create_task(stream.run())
    except Exception:
        log.exception("A stream failed. Its connection was closed")
    if shutdown.begun():
        writer.break_off()  # a cut, because some clients never connect again after a clean end
    else:
        writer.end()


async def open_session(streams: Registry, wid: str, key: Key) -> Session:
    """Takes and returns the session for a new stream. Raises NotFound or Forbidden."""
    if "\0" in wid:
        raise NotFound("unknown or expired watch session")
    if any(saved.wid == wid for saved in streams.closing):
        # The session's last stream ended in this process, with unsaved positions. We save the positions first. After another
        # stream has taken the session, SAVE matches no row for the earlier stream.
        await streams.save()
    return await streams.hub.store.drive(take(wid, key, now_ms()))


streams = (watch, events)
