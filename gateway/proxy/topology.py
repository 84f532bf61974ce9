"""Cached facts about topics and nodes behind the routes of one router, shared by its connections (api.TopologyService).

The cache learns from answers, and asks the servers about unknown topics. A snapshot is at most `FRESH_SECONDS` old. Snapshots
are only hints: the server decides what a client may do.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

from gateway.api import NodeState, Operation, Request, Response, TopicState, VirtualNode

FRESH_SECONDS = 5.0
MOST_TOPICS = 10_000
TELLING = frozenset((Operation.APPEND, Operation.READ, Operation.LIST_RECORDS, Operation.GET_TOPIC))


class _Told(msgspec.Struct):
    head_seq: int
    earliest_seq: int = 1


class RouterRoutes(Protocol):
    """The routes of the router, and the router's own requests (background.OwnRequests)."""

    def any_node(self, route: str) -> VirtualNode: ...
    async def send_request(self, node: VirtualNode, request: Request) -> Response: ...
    def states(self, route: str) -> Sequence[NodeState]: ...


class Topology:
    """The topology of one router of a virtual cluster."""

    def __init__(self) -> None:
        self.known: OrderedDict[tuple[str, str], tuple[float, TopicState]] = OrderedDict()
        self.own: RouterRoutes | None = None  # set after the virtual cluster is built (background.bind)

    async def topics(self, route: str, names: Iterable[str]) -> Mapping[str, TopicState]:
        """Returns the state of each topic. Raises TopicsError if the route does not answer."""
        wanted = list(dict.fromkeys(names))
        states = await asyncio.gather(*(self.topic(route, name) for name in wanted))
        return MappingProxyType(dict(zip(wanted, states, strict=True)))

    async def topic(self, route: str, name: str) -> TopicState:
        found = self.known.get((route, name))
        if found is not None and time.monotonic() - found[0] < FRESH_SECONDS:
            return found[1]
        assert self.own is not None, "the topology needs the router first"
        request = Request("GET", f"/v0/topics/{name}", "touch=false")
        response = await self.own.send_request(self.own.any_node(route), request)
        await response.read()
        self.learn(route, request, response)
        found = self.known.get((route, name))
        return found[1] if found is not None else TopicState(False)

    def learn(self, route: str, request: Request, response: Response) -> None:
        """Stores the state of a topic from an answer."""
        name = request.topic
        if name is None or not isinstance(response.body, bytes):
            return
        is_deleted = request.operation is Operation.DELETE_TOPIC and response.status == 200
        if is_deleted or (response.status == 404 and b'"topic_not_found"' in response.body):
            self.put(route, name, TopicState(False))
        elif request.operation in TELLING and response.status in (200, 201):
            try:
                told = msgspec.json.decode(response.body, type=_Told)
            except msgspec.MsgspecError:
                return  # compressed, or not JSON
            self.put(route, name, TopicState(True, told.head_seq, told.earliest_seq))

    def put(self, route: str, name: str, state: TopicState) -> None:
        self.known[route, name] = time.monotonic(), state
        self.known.move_to_end((route, name))
        if len(self.known) > MOST_TOPICS:
            self.known.popitem(last=False)

    def nodes(self, route: str) -> Sequence[NodeState]:
        assert self.own is not None
        return self.own.states(route)

    def invalidate_route(self, route: str) -> None:
        """Removes the cached states of a route's topics."""
        for key in [each for each in self.known if each[0] == route]:
            del self.known[key]
