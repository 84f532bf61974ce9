"""The Live page's stream: new records of several topics, for a user who is logged in.

The stream is a watch stream (watch/stream.py) without a session in the database. It continues after the browser's last id.
"""

from __future__ import annotations

import asyncio

from base.clock import now_ms
from base.errors import InvalidRequest, TopicNotFound, TopicsError
from console.live.live import PAUSE_SECONDS, drawn, serve_for_a_while
from console.live.visitor import enter
from contract.reading import Match
from watch import frames, sessions
from watch.outflow import Outflow
from watch.registry import registry
from watch.sessions import SavedPosition, Session, Start, Watch
from watch.stream import Stream
from wire.request.parse import query_pairs
from wire.streams import StreamCall

PATH = "/admin/tail/"
PERMISSION = "topics.view_topic"
MOST_TOPICS = 20
BEHIND_SECONDS = 0.25  # until the stream has perhaps sent what it was behind


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


class TailStream(Stream):
    """A watch stream that also sends the event `drawn` every two seconds: the page shows all records up to its time."""

    aging: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await super().begin()
        self.aging = asyncio.create_task(self.tell_age())

    async def tell_age(self) -> None:
        """Sends `drawn`. While PostgreSQL does not answer, or the stream is behind, no event comes, and the browser says how old
        the page is."""
        while True:
            looked_ts = now_ms()
            try:
                found = await self.hub.find(list(self.positions))
            except TopicsError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            while any(self.positions[name].seq < head_seq for name, (_, head_seq) in found.items()):
                await asyncio.sleep(BEHIND_SECONDS)
            if not self.is_sending:
                self.say(drawn(looked_ts, round(PAUSE_SECONDS * 1000)))
            await asyncio.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        super().close()
        if self.aging is not None:
            self.aging.cancel()


async def stream(call: StreamCall) -> None:
    """Serves GET /admin/tail/ to its end. Raises TopicsError before the response starts."""
    key = await enter(call, PERMISSION)
    watch = wanted(call.query)
    sessions.check_watch(watch, key)
    options = sessions.options(watch)
    streams = registry()
    found = await streams.hub.store.drive(sessions.survey(watch, now_ms()))
    if missing := set(watch.topics) - {each.name for each in found}:
        raise TopicNotFound(f"topic {min(missing)!r} does not exist", topic=min(missing))
    # A page sends its last id in the query after a stream that was refused in between.
    last = call.last_id or dict(query_pairs(call.query)).get("lastEventId", "")
    positions = {each.name: SavedPosition(each.topic_id, each.head_seq, told=True) for each in found}
    session = Session("", options, positions, 0, True)
    async with streams.place(key):
        outflow = Outflow(call.writer)
        seen = frames.parse_id(last) if last else None
        await serve_for_a_while(TailStream(streams.hub, session, key, outflow.send, seen), outflow)
