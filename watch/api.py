"""POST /v0/watch makes a session (docs/wire.md). Its stream is served in plain ASGI: watch/serve.py."""

from __future__ import annotations

import msgspec
from django.conf import settings
from msgspec import UNSET

from base.clock import now_ms
from store.script import Script
from watch.sessions import Watch, clamped_by, create
from wire.answer import Answer
from wire.endpoint import Asked, Endpoint
from wire.parse import Request
from wire.schema import Clamped, Performance


class Watched(msgspec.Struct):
    """Where a stream begins in a topic (after from_seq), and what the topic holds."""

    from_seq: int
    head_seq: int
    earliest_seq: int


class WatchAnswer(msgspec.Struct, kw_only=True):
    wid: str
    stream_url: str
    session_ttl_ms: int
    topics: dict[str, Watched]
    clamped: Clamped = UNSET
    performance: Performance


class WatchQuery(Request):
    lenient: bool = False


@Endpoint(
    "POST",
    "v0/watch",
    "watch",
    scope="read",
    body=Watch,
    query=WatchQuery,
    answers={200: WatchAnswer},
    tag="watch",
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
            topics={found.name: Watched(spots[found.name].seq, found.head_seq, found.earliest_seq) for found in topics},
            clamped=clamped_by(asked.body),
            performance=asked.performance(),
        )
    )


endpoints = (begin_session,)
