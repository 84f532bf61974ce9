"""What things of the bus are called, and the topics and routers that they are (docs/push.md).

A bus topic `orders` is the topic `bus:orders`. A subscriber's queue is a topic `bus.queue:NAME.ID`, after the client: never
after its token, which is a secret and would stand in every list of topics. A subscription to a bus topic is a router.
"""

from __future__ import annotations

import re

from base.errors import InvalidRequest

BUS, QUEUE = "bus:", "bus.queue:"
TOPIC = re.compile(r"[a-z_]{1,32}", re.ASCII)
TOKEN = re.compile(r"[a-z0-9:_-]{1,64}", re.ASCII)


def check_topic(name: str) -> str:
    """The name itself. Raises InvalidRequest."""
    if not TOPIC.fullmatch(name):
        raise InvalidRequest(f"{name[:80]!r} is no topic: 1 to 32 lowercase letters and underscores are")
    return name


def check_token(value: str, what: str) -> str:
    """The value itself. Raises InvalidRequest, which does not repeat it: it may be a secret."""
    if not TOKEN.fullmatch(value):
        raise InvalidRequest(f"a {what} has 1 to 64 of a-z 0-9 : _ -")
    return value


def check_queue(name: str, discard: str, is_sealed: bool) -> None:
    """Raises InvalidRequest for a queue that rejects: what was delivered would count for days, and the events of several topics
    come in one order, in which none can be left behind. A sealed queue would take none of them."""
    if name.startswith(QUEUE) and discard == "reject":
        raise InvalidRequest(
            f'{name!r} is a queue of the push bus, which rejects nothing: leave discard at "old", which evicts the oldest events',
            field="discard",
        )
    if name.startswith(QUEUE) and is_sealed:
        raise InvalidRequest(
            f"{name!r} is a queue of the push bus, which takes every event: pause its subscriber instead of sealing it",
            field="sealed",
        )


def bus_topic(name: str) -> str:
    """The topic that a bus topic is."""
    return BUS + name


def queue_of(client_name: str, client_id: int) -> str:
    """The topic that a client's queue is. No name holds a dot, so that no two clients share one."""
    return f"{QUEUE}{client_name}.{client_id}"


def router_of(name: str, queue: str) -> str:
    """The router that a queue's subscription to a bus topic is."""
    return f"{bus_topic(name)}>{queue}"
