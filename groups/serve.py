"""The stream of a group's member, from its declaration to its end."""

from __future__ import annotations

from base.clock import now_ms
from base.errors import Incompatible, InvalidRequest, TopicNotFound
from contract.operations import Operation
from groups.events import OF_GROUP
from groups.joining import JoinQuery, join
from groups.stream import MemberStream
from watch.outflow import Outflow
from watch.registry import registry
from watch.serve import serve
from wire.access.keys import Key
from wire.streams import StreamCall, StreamEndpoint


@StreamEndpoint(
    Operation.FOLLOW_GROUP,
    scope="write",
    query=JoinQuery,
    events=OF_GROUP,
    errors=(TopicNotFound, Incompatible),
    tag="groups",
)
async def member(call: StreamCall, key: Key, query: JoinQuery, topic: str, group: str) -> None:
    """Join a group, and get the records of your shares.

    The key needs the scopes read and write. The first member creates the group. The stream has no end. It sends the events
    `joined`, `assigned`, `revoked`, `record`, `tombstone`, `topic-deleted` and `error`, with JSON data. After 15 s without
    an event it sends a comment. The page `/v0/docs` shows the first two seconds of the stream."""
    if call.last_id:
        raise InvalidRequest("a group continues at its committed cursors: leave out the header Last-Event-ID")
    streams = registry()
    async with streams.place(key):
        joined = await streams.hub.store.drive(join(topic, group, query, key, now_ms()))
        outflow = Outflow(call.writer)
        await serve(MemberStream(streams.hub, joined, key, outflow), outflow, key)


streams = (member,)
