"""Names on the bus, and the topics and routers behind these names (docs/push.md).

A bus topic `orders` is the topic `bus:orders`. A subscriber's queue is the topic `bus.queue:NAME.ID`, with the client's name and
id. The token is a secret, and every list of topics would show a token in the name. A subscription to a bus topic is a router.
"""

from __future__ import annotations

import re

from base.errors import InvalidRequest

BUS, QUEUE = "bus:", "bus.queue:"
MOST_LETTERS = 64  # of a bus topic, as in Routemaster's code and clients
TOPIC = re.compile(rf"[a-z_]{{1,{MOST_LETTERS}}}", re.ASCII)
TOKEN = re.compile(r"[a-z0-9:_-]{1,64}", re.ASCII)


def check_topic(name: str) -> str:
    """Returns the name of a bus topic. Raises InvalidRequest if it is invalid."""
    if not TOPIC.fullmatch(name):
        raise InvalidRequest(
            f"{name[:80]!r} is not a topic: expected 1 to {MOST_LETTERS} lowercase letters and underscores"
        )
    return name


def check_token(value: str, what: str) -> str:
    """Returns the value. Raises InvalidRequest, without repeating the value, which may be a secret."""
    if not TOKEN.fullmatch(value):
        raise InvalidRequest(f"invalid {what}: expected 1 to 64 of a-z 0-9 : _ -")
    return value


def check_queue(name: str, discard: str, is_sealed: bool) -> None:
    """Raises InvalidRequest for a queue that rejects events or is sealed.

    Delivered events count against caps for days. If one topic's event were rejected, the events of other topics would wait
    behind it, because all events are queued in one order. A sealed queue would take no event.
    """
    if name.startswith(QUEUE) and discard == "reject":
        raise InvalidRequest(
            f'{name!r} is a queue of the push bus: expected discard "old", which evicts the oldest events',
            field="discard",
        )
    if name.startswith(QUEUE) and is_sealed:
        raise InvalidRequest(
            f"{name!r} is a queue of the push bus: pause its subscriber instead of sealing the queue",
            field="sealed",
        )


def bus_topic(name: str) -> str:
    """Returns the name of the topic behind a bus topic."""
    return BUS + name


def queue_of(client_name: str, client_id: int) -> str:
    """Returns the name of a client's queue. Client names contain no dot, so that no two clients share a queue."""
    return f"{QUEUE}{client_name}.{client_id}"


def router_of(name: str, queue: str) -> str:
    """Returns the name of the router behind a queue's subscription to a bus topic."""
    return f"{bus_topic(name)}>{queue}"
