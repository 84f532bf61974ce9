"""POST /v0/watch makes a session (contract.md section 7). Its stream is served in plain ASGI: watch/serve.py."""

from __future__ import annotations

import msgspec
from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from base.clock import now_ms
from watch.sessions import Watch, create
from wire.endpoint import Endpoint
from wire.schema import Performance, operation


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
    performance: Performance


class WatchQuery(msgspec.Struct):
    lenient: bool = False


class Sessions(Endpoint):
    """/v0/watch"""

    @operation("watch", body=Watch, query=WatchQuery, answers={200: WatchAnswer}, tag="watch")
    def post(self, request: Request) -> Response:
        """Begin to watch topics: the answer says where the stream is."""
        lenient = self.query(WatchQuery).lenient
        wid, topics, spots = create(self.body(Watch), self.key, lenient, now_ms())
        return self.answer(
            WatchAnswer(
                wid=wid,
                stream_url=f"/v0/watch/{wid}",
                session_ttl_ms=settings.TOPICS_WATCH_SESSION_TTL_MS,
                topics={
                    found.name: Watched(spots[found.name].seq, found.head_seq, found.earliest_seq) for found in topics
                },
                performance=self.performance(),
            )
        )
