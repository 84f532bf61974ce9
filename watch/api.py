"""POST /v0/watch makes a session (docs/wire.md), and what the schema says of streams."""

from __future__ import annotations

import msgspec
from django.conf import settings
from msgspec import UNSET

from base.clock import now_ms
from base.errors import TopicNotFound
from store.script import Script
from topics.api.shapes import EarliestSeq, HeadSeq
from watch.sessions import FIRST_TTL_MS, Watch, clamped_by, create
from wire.answer import Answer
from wire.endpoint import Asked, Endpoint, Operation
from wire.parse import Request
from wire.schema import EVENT_STREAM, Clamped, Performance

TAG = "watch"


class Watched(msgspec.Struct):
    """Where a stream begins in a topic (after from_seq), and what the topic holds."""

    from_seq: int
    """The stream begins behind this seq."""
    head_seq: HeadSeq
    earliest_seq: EarliestSeq


class WatchAnswer(msgspec.Struct, kw_only=True):
    wid: str
    """The session's name, which is as good as a secret."""
    stream_url: str
    """Where the stream is, for a GET or an `EventSource`."""
    session_ttl_ms: int
    """Milliseconds for which the session is kept after a stream has ended."""
    first_ttl_ms: int
    """Milliseconds for which the session is kept until its first stream begins."""
    topics: dict[str, Watched]
    """Where the stream begins, by topic."""
    clamped: Clamped = UNSET
    performance: Performance


class WatchQuery(Request):
    lenient: bool = False
    """True: absent topics are left out, unless none is left."""


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
    instead="a stream is GET /v0/watch/:wid, as stream_url says",
)
def begin_session(asked: Asked[Watch, WatchQuery]) -> Script[Answer]:
    """Begin to watch topics: the answer says where the stream is."""
    wid, topics, spots = yield from create(asked.body, asked.key, asked.query.lenient, now_ms())
    return asked.answer(
        WatchAnswer(
            wid=wid,
            stream_url=f"/v0/watch/{wid}",
            session_ttl_ms=settings.TOPICS_WATCH_SESSION_TTL_MS,
            first_ttl_ms=FIRST_TTL_MS,
            topics={found.name: Watched(spots[found.name].seq, found.head_seq, found.earliest_seq) for found in topics},
            clamped=clamped_by(asked.body),
            performance=asked.performance(),
        )
    )


class StreamQuery(Request):
    """What an `EventSource` can say, which sends no headers of its own."""

    token: str | None = None
    """The key's secret, in place of the header `Authorization`."""


class EventsQuery(StreamQuery):
    """The same for django-eventstream."""

    last_event_id: str | None = msgspec.field(name="lastEventId", default=None)
    """In place of the header `Last-Event-ID`."""


# Served in plain ASGI, by the front alone (serve.py).
streams = (
    Operation(
        "GET",
        "v0/watch/<str:wid>",
        "watch_stream",
        scope="read",
        query=StreamQuery,
        answers={200: EVENT_STREAM},
        tag=TAG,
        headers={"Last-Event-ID": "The last id that was seen: the stream goes on behind it."},
        summary="""Follow the topics of a session.

        The stream does not end: events `record`, `caught-up`, `tombstone`, `topic-deleted` and `error`, whose data is JSON, and
        a comment where nothing else was sent for `heartbeat_ms`. A stream that is cut goes on where it was. Here it is shown
        as far as it comes in two seconds.""",
    ),
    Operation(
        "GET",
        "v0/topics/<str:topic>/events",
        "topic_events",
        scope="read",
        query=EventsQuery,
        answers={200: EVENT_STREAM},
        errors=(TopicNotFound,),
        tag=TAG,
        headers={"Last-Event-ID": "The last id that was seen, `topic:seq`: the stream goes on behind it."},
        summary="""Follow one topic without a session.

        The stream does not end: a `message` event for each record from now on, whose id is `topic:seq`; `stream-reset` where
        records were lost, `keep-alive` every 20 s. Here it is shown as far as it comes in two seconds.""",
    ),
)
endpoints = (begin_session,)
