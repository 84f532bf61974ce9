"""GET /v0/topics/:topic/groups/:group/stream, in plain ASGI: authentication, the refusals, the join, then the stream."""

from __future__ import annotations

from base.clock import now_ms
from base.errors import InvalidRequest
from groups.joining import JoinQuery, join
from groups.roster import roster
from groups.stream import MemberStream
from watch.registry import registry
from watch.serve import enter, flowing, pump
from wire.asgi import Application, Receive, Scope, Send
from wire.parse import parse_query


async def member(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves a member's stream to the end. Raises TopicsError before the response starts."""
    headers = dict(scope["headers"])
    key = await enter(scope, headers, JoinQuery)
    if headers.get(b"last-event-id"):
        raise InvalidRequest("a group continues at its committed cursors: leave out the header Last-Event-ID")
    _, _, _, topic, _, group, _ = scope["path"].split("/")
    wanted = parse_query(scope["query_string"], JoinQuery)
    streams = registry()
    await streams.enter(key)
    try:
        joined = await streams.hub.store.drive(join(topic, group, wanted, key, now_ms()))
        with flowing(scope, send) as outflow:
            stream = MemberStream(streams.hub, joined, key, outflow.send, outflow.cut)
            streams.streams[stream] = None
            try:
                await stream.begin()
                roster().add(stream)
                await pump(stream, receive, outflow.send)
            finally:
                stream.close()
                roster().remove(stream)
                del streams.streams[stream]
    finally:
        streams.exit(key)


def stream_at(path: str) -> Application | None:
    """Returns the handler of this path, or None for a path that is not a member's stream."""
    is_ours = path.startswith("/v0/topics/") and path.endswith("/stream") and path.count("/") == 6
    return member if is_ours and path.split("/")[4] == "groups" else None
