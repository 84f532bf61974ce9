"""The Live page's stream: new records of several topics, for a user who is logged in.

The stream is a watch stream (watch/stream.py) without a session in the database. It continues after the browser's last id.
"""

from __future__ import annotations

import asyncio
from typing import Any

from base.clock import now_ms
from base.errors import InvalidRequest, TopicNotFound
from console.live import MOST_SECONDS, admitted, key_of
from console.visitor import enter
from topics.diff import Match
from watch import frames, sessions
from watch.hub import hub
from watch.serve import flowing, pump
from watch.sessions import SavedPosition, Session, Start, Watch
from watch.stream import Stream
from wire import shutdown
from wire.parse import query_pairs

PATH = "/admin/tail/"
PERMISSION = "topics.view_topic"
MOST_TOPICS = 20


def wanted(query: bytes) -> Watch:
    """Returns the page's query as the body of a watch: `topic` (1 to 20 times), `node`, `tag`. Raises InvalidRequest."""
    pairs = [(name, value) for name, value in query_pairs(query) if value]
    names = [value for name, value in pairs if name == "topic"]
    given = dict(pairs)
    if not 1 <= len(names) <= MOST_TOPICS:
        raise InvalidRequest(f"{len(names)} topics: expected 1 to {MOST_TOPICS}")
    tag = given.get("tag", "")
    match: Match | None = None if not tag else ("tag", "Glob" if tag.endswith("*") else "Eq", tag)
    start = {name: Start(tail=True, match=match) for name in names}
    return Watch(start, node=given.get("node") or None, include_tags=True, limit=100)


async def stream(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serves GET /admin/tail/ to its end. Raises TopicsError before the response starts."""
    shutdown.check()
    key = key_of(await enter(scope, PERMISSION))
    watch = wanted(scope["query_string"])
    sessions.check_watch(watch, key)
    options = sessions.options(watch)
    streams = hub()
    found = await streams.store.drive(sessions.survey(watch, now_ms()))
    if missing := set(watch.topics) - {each.name for each in found}:
        raise TopicNotFound(f"topic {min(missing)!r} does not exist", topic=min(missing))
    last = dict(scope["headers"]).get(b"last-event-id", b"").decode("latin-1").strip()
    positions = {each.name: SavedPosition(each.topic_id, each.head_seq, told=True) for each in found}
    with flowing(scope, send) as outflow:
        live = Stream(streams, Session("", options, positions, 0, True), key, outflow.send)
        again = asyncio.get_running_loop().call_later(MOST_SECONDS, live.hang_up)
        try:
            async with admitted(live):
                await live.begin(frames.parse_id(last) if last else None)
                await pump(live, receive, outflow.send)
        finally:
            again.cancel()
            live.close()
