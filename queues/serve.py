"""GET /v0/topics/:topic/work, in plain ASGI: authentication, the refusals, then the stream."""

from __future__ import annotations

import asyncio

from queues.api.shapes import check_worker
from queues.leases import not_a_queue
from queues.work import WorkQuery, WorkStream
from store.script import Script
from topics.cache import CachedTopic, load_topic
from topics.cache import absent as absent_topic
from topics.models import Topic
from watch.registry import registry
from watch.serve import enter, flowing, pump
from wire.asgi import Application, Receive, Scope, Send
from wire.parse import parse_query


async def work(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves a worker's stream to the end. Raises TopicsError before the response starts."""
    key = await enter(scope, dict(scope["headers"]), WorkQuery)
    wanted = parse_query(scope["query_string"], WorkQuery)
    name = scope["path"].split("/")[3]
    for needed in ("read", "write"):
        key.check(needed)
    key.check_name(name)
    check_worker(wanted.node)
    streams = registry()
    topic = await streams.hub.store.drive(queue_called(name))
    await streams.enter(key)
    try:
        with flowing(scope, send) as outflow:
            stream = WorkStream(streams.hub, name, topic.id, wanted, key, outflow.send)
            streams.streams[stream] = None
            try:
                await pump(stream, receive, outflow.send)
            finally:
                del streams.streams[stream]
                # A task of its own: a cancelled request gives its jobs back, too.
                await asyncio.shield(asyncio.create_task(stream.close()))
    finally:
        streams.exit(key)


def queue_called(name: str) -> Script[CachedTopic]:
    """Returns the queue as PostgreSQL has it now. Raises TopicNotFound or NotAQueue."""
    topic = yield from load_topic(name)
    if topic is None:
        raise absent_topic(name)
    if topic.type != Topic.Type.QUEUE:
        raise not_a_queue(name)
    return topic


def stream_at(path: str) -> Application | None:
    """Returns the handler of this path, or None for a path that is not a worker's stream."""
    return work if path.startswith("/v0/topics/") and path.endswith("/work") and path.count("/") == 4 else None
