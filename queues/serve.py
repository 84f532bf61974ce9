"""The stream of a worker, from its declaration to its end."""

from __future__ import annotations

import asyncio

from base.errors import NotAQueue, TopicNotFound
from contract.operations import Operation
from queues.api.shapes import JobEvent, check_worker
from queues.leases import not_a_queue
from queues.work import WorkQuery, WorkStream
from store.script import Script
from topics.cache import CachedTopic, load_topic
from topics.cache import absent as absent_topic
from topics.models import Topic
from watch.events import EndEvent
from watch.outflow import Outflow
from watch.registry import registry
from watch.serve import serve
from wire.access.keys import Key
from wire.streams import StreamCall, StreamEndpoint


@StreamEndpoint(
    Operation.WORK,
    scope="write",
    query=WorkQuery,
    events={"job": JobEvent, "error": EndEvent},
    errors=(TopicNotFound, NotAQueue),
    tag="queues",
    names={"topic": "example-jobs", "node": "worker-1"},
)
async def work(call: StreamCall, key: Key, query: WorkQuery, name: str) -> None:
    """Get jobs of a queue on a stream.

    The key needs the scopes read and write. The stream keeps up to `max` jobs in flight for the worker, and sends the next
    job when one is acked. When the connection ends, its jobs are ready again. The stream has no end. It sends the events
    `job` and `error`. After 15 s without an event it sends a comment. The page `/v0/docs` shows its first two seconds."""
    key.check("read", "write")
    key.check_name(name)
    check_worker(query.node)
    streams = registry()
    topic = await streams.hub.store.drive(queue_called(name))
    async with streams.place(key):
        outflow = Outflow(call.writer)
        stream = WorkStream(streams.hub, name, topic.id, query, key, outflow.send)
        try:
            await serve(stream, outflow, key)
        finally:
            # A task of its own: a cancelled request gives its jobs back, too.
            await asyncio.shield(asyncio.create_task(stream.give_back()))


def queue_called(name: str) -> Script[CachedTopic]:
    """Returns the queue as PostgreSQL has it now. Raises TopicNotFound or NotAQueue."""
    topic = yield from load_topic(name)
    if topic is None:
        raise absent_topic(name)
    if topic.type != Topic.Type.QUEUE:
        raise not_a_queue(name)
    return topic


streams = (work,)
