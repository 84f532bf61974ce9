"""POST /v0/watch, which creates a session (docs/wire.md), and the queries of the streams."""

from __future__ import annotations

import msgspec
from django.conf import settings
from msgspec import UNSET

from base.clock import now_ms
from base.errors import TopicNotFound
from contract.names import NamedTopic
from contract.operations import Operation
from contract.reading import Seq
from store.script import Script
from topics.api.shapes import EarliestSeq, HeadSeq
from watch.sessions import FIRST_TTL_MS, Watch, clamped_by, create
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.request.parse import Request
from wire.schema import Clamped, Performance

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
    topics: dict[NamedTopic, Watched]
    """The start of the stream, by topic."""
    clamped: Clamped = UNSET
    performance: Performance


class WatchQuery(Request):
    lenient: bool = False
    """True: absent topics are left out. If no topic is left, the answer is 404."""


@Endpoint(
    Operation.WATCH,
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
    last_event_id: str | None = msgspec.field(name="lastEventId", default=None)
    """The last id that the client has received, in place of the header `Last-Event-ID`. The header wins."""


class EventsQuery(StreamQuery):
    """The start of the stream, and its filter."""

    from_seq: Seq | None = None
    """Start after this seq. 0: at the beginning. Without it, the stream starts at the head. A last id wins."""
    match: str | None = None
    """Only records with this tag, or with a tag that matches a predicate in JSON: `["tag","Glob","order:*"]`."""


endpoints = (begin_session,)
