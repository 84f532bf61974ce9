"""POST /v0/watch, which creates a session (docs/wire.md), and the schema of the two streams."""

from __future__ import annotations

import msgspec
from django.conf import settings
from msgspec import UNSET

from base.clock import now_ms
from base.errors import TopicNotFound
from store.script import Script
from topics.api.shapes import EarliestSeq, HeadSeq
from topics.diff import Seq
from watch.sessions import FIRST_TTL_MS, Watch, clamped_by, create
from wire.answer import Answer
from wire.endpoint import Call, Endpoint, Operation
from wire.parse import Request
from wire.schema import EVENT_STREAM, Clamped, Performance

TAG = "watch"


class Watched(msgspec.Struct):
    """The position at which a stream starts in a topic, and the topic's seqs."""

    from_seq: int
    """The stream starts after this seq."""
    head_seq: HeadSeq
    earliest_seq: EarliestSeq


class WatchAnswer(msgspec.Struct, kw_only=True):
    wid: str
    """The session's id. Keep it secret."""
    stream_url: str
    """The URL of the stream, for a GET or an `EventSource`."""
    session_ttl_ms: int
    """Milliseconds for which the session is kept after a stream has ended."""
    first_ttl_ms: int
    """Milliseconds for which the session is kept until its first stream starts."""
    topics: dict[str, Watched]
    """The start of the stream, by topic."""
    clamped: Clamped = UNSET
    performance: Performance


class WatchQuery(Request):
    lenient: bool = False
    """True: absent topics are left out. If no topic is left, the answer is 404."""


@Endpoint(
    "POST",
    "v0/watch",
    "watch",
    scope="read",
    body=Watch,
    query=WatchQuery,
    answers={200: WatchAnswer},
    errors=(TopicNotFound,),
    tag=TAG,
    example={"topics": {"example-orders": {"from_seq": 0}}},
    needs_body=True,
    instead="GET /v0/watch/:wid, the stream_url of the answer, is the stream",
)
def begin_session(call: Call[Watch, WatchQuery]) -> Script[Answer]:
    """Create a session that watches topics. The answer contains the stream's URL."""
    wid, topics, spots = yield from create(call.body, call.key, call.query.lenient, now_ms())
    return call.answer(
        WatchAnswer(
            wid=wid,
            stream_url=f"/v0/watch/{wid}",
            session_ttl_ms=settings.TOPICS_WATCH_SESSION_TTL_MS,
            first_ttl_ms=FIRST_TTL_MS,
            topics={found.name: Watched(spots[found.name].seq, found.head_seq, found.earliest_seq) for found in topics},
            clamped=clamped_by(call.body),
            performance=call.performance(),
        )
    )


class StreamQuery(Request):
    """Query parameters in place of headers, because an `EventSource` sends no headers of its own."""

    token: str | None = None
    """The key's secret, in place of the header `Authorization`."""


class EventsQuery(StreamQuery):
    """Query parameters in place of headers, for django-eventstream."""

    last_event_id: str | None = msgspec.field(name="lastEventId", default=None)
    """The last id that the client has received, in place of the header `Last-Event-ID`. It wins over `from_seq`."""
    from_seq: Seq | None = None
    """Start after this seq. 0: at the beginning. Without it, the stream starts at the head."""
    match: str | None = None
    """Only records with this tag, or with a tag that matches a predicate in JSON: `["tag","Glob","order:*"]`."""


# Served in plain ASGI (serve.py), not by Django.
streams = (
    Operation(
        "GET",
        "v0/watch/<str:wid>",
        "follow_watch",
        scope="read",
        query=StreamQuery,
        answers={200: EVENT_STREAM},
        tag=TAG,
        headers={"Last-Event-ID": "The last received id. The stream continues after this id."},
        summary="""Follow the topics of a session.

        The stream has no end. It sends the events `record`, `caught-up`, `tombstone`, `topic-deleted` and `error`, with JSON
        data. After `heartbeat_ms` without an event it sends a comment. A new connection continues at the saved position. This
        page shows the first two seconds of the stream.""",
    ),
    Operation(
        "GET",
        "v0/topics/<str:topic>/events",
        "follow_topic",
        scope="read",
        query=EventsQuery,
        answers={200: EVENT_STREAM},
        errors=(TopicNotFound,),
        tag=TAG,
        headers={"Last-Event-ID": "The last received id, `topic:seq`. The stream continues after this id."},
        summary="""Follow one topic without a session.

        The stream has no end. It sends a `message` event with the id `topic:seq` for each new record, `stream-reset` if records
        were lost, and `keep-alive` every 20 s. This page shows the first two seconds of the stream.""",
    ),
)
endpoints = (begin_session,)
