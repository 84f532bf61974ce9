"""/subscription and /subscriber: subscribe, unsubscribe, and list all subscriptions."""

from __future__ import annotations

from typing import Any

import msgspec

from base.clock import now_ms
from base.errors import NotFound
from contract.operations import Operation
from push.api.bus import BUS
from push.api.tokens import NOTHING
from push.bus.clients import BusKey
from push.bus.subscriptions import Wanted, list_subscriptions, subscribe, subscriber_named, unsubscribe
from store.script import Script
from wire.access.keys import Key
from wire.answer import Answer
from wire.endpoint import Call, Endpoint


class Events(msgspec.Struct):
    """`oldest`: time of the oldest queued event in seconds since the epoch. Null if no event is queued."""

    sent: int
    queued: int
    oldest: int | None


class ListedSubscription(msgspec.Struct):
    """`uuid`: a secret, shown only to its own client and to the root key, else null. The callback's credentials are hidden."""

    subscriber: str
    uuid: str | None
    callback: str
    max_events: int
    timeout: int
    topics: list[str]
    events: Events


@Endpoint(Operation.SUBSCRIBE, scope="client", api=BUS, body=Wanted, answers={})
def put(call: Call[Wanted, None]) -> Script[Answer]:
    """Subscribe to exactly these topics, or change the subscription."""
    yield from subscribe(call.key.client_id, call.key.name, call.body, now_ms())  # type: ignore[attr-defined]
    return NOTHING


@Endpoint(Operation.SUBSCRIPTIONS, scope="monitor", api=BUS, answers={200: ListedSubscription})
def list_all(call: Call[None, None]) -> Script[Answer]:
    """List all subscriptions, with the numbers of their sent and queued events."""
    listed = [
        ListedSubscription(
            each.subscriber,
            each.uuid if call.key.sees_secrets_of(each.client_id) else None,  # type: ignore[attr-defined]
            each.callback,
            each.max_events,
            each.timeout,
            each.topics,
            Events(each.sent, each.queued, None if each.oldest_ts is None else each.oldest_ts // 1000),
        )
        for each in (yield from list_subscriptions())
    ]
    return Answer(200, msgspec.json.encode(listed))


def own(key: Key) -> int:
    """Returns the client's id. Raises NotFound for the root key, which has no subscription."""
    if not isinstance(key, BusKey) or "root" in key.scopes:
        raise NotFound("the root key has no subscription: DELETE /subscribers/NAME ends that of a client")
    return key.client_id


@Endpoint(Operation.UNSUBSCRIBE_ALL, scope="delete", api=BUS, answers={})
def delete_all(call: Call[Any, None]) -> Script[Answer]:
    """Unsubscribe from all topics. Queued events are still delivered."""
    yield from unsubscribe(own(call.key), None, now_ms())
    return NOTHING


@Endpoint(Operation.UNSUBSCRIBE, scope="delete", api=BUS, answers={})
def delete_one(call: Call[Any, None], topic: str) -> Script[Answer]:
    """Unsubscribe from a topic. Queued events are still delivered."""
    yield from unsubscribe(own(call.key), topic, now_ms())
    return NOTHING


@Endpoint(Operation.UNSUBSCRIBE_CLIENT, scope="root", api=BUS, answers={})
def delete_named(call: Call[Any, None], subscriber: str) -> Script[Answer]:
    """End a client's subscription, even if its token was deleted. Queued events are still delivered."""
    client_id = yield from subscriber_named(subscriber)
    yield from unsubscribe(client_id, None, now_ms())
    return NOTHING


endpoints = (put, list_all, delete_all, delete_one, delete_named)
