"""/topics: publish, list, delete."""

from __future__ import annotations

from typing import Any

import msgspec

from base.clock import now_ms
from contract.operations import Operation
from push.api.bus import BUS
from push.api.tokens import NOTHING
from push.bus.publish import Event, publish
from push.bus.topics import delete_topic, list_topics
from store.script import Script
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.request.parse import header_text


class ListedTopic(msgspec.Struct):
    name: str
    publisher: str | None
    events: int


@Endpoint(Operation.BUS_TOPICS, scope="monitor", api=BUS, answers={200: ListedTopic})
def list_all(call: Call[None, None]) -> Script[Answer]:
    """List all topics, each with its publisher and the number of events ever published."""
    listed = yield from list_topics()
    return Answer(200, msgspec.json.encode([ListedTopic(*each) for each in listed]))


@Endpoint(
    Operation.PUBLISH,
    scope="client",
    api=BUS,
    body=Event,
    answers={},
    headers={
        "Idempotency-Key": "The name of the event, 1 to 256 characters in UTF-8. Sent again, it is not published again."
    },
)
def publish_event(call: Call[Event, None], topic: str) -> Script[Answer]:
    """Publish an event. The first client that publishes to a topic becomes its only publisher."""
    client_id, traceparent = call.key.client_id, call.headers.get(b"traceparent")  # type: ignore[attr-defined]
    sent = call.headers.get(b"idempotency-key")
    key = None if sent is None else header_text("Idempotency-Key", sent)
    yield from publish(topic, call.body, client_id, now_ms(), traceparent, key)
    return NOTHING


# Routemaster's page documents /topic/:name, but its clients use /topics/:name.
@Endpoint(Operation.DELETE_BUS_TOPIC, scope="delete", api=BUS, answers={})
def delete(call: Call[Any, None], topic: str) -> Script[Answer]:
    """Delete a topic. Its subscribers still get the published events, and are unsubscribed."""
    yield from delete_topic(topic, call.key, now_ms())  # type: ignore[arg-type]
    return NOTHING


endpoints = (list_all, publish_event, delete)
