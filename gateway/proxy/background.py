"""A router's own requests and background work, without a client.

The requests pass the filters of the router's routes, but not the filters of the virtual cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from gateway.api import NodeState, Operation, Request, Response, RouterContext, RouterResponse, VirtualNode
from gateway.configuration.graph import RouterPlace, VirtualClusterPlace, Work, nodes, places
from gateway.configuration.keys import random_seal
from gateway.errors import UnknownRoute
from gateway.proxy.calls import RoutedCall, RouteDecision, Session

log = logging.getLogger(__name__)
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 30.0


class OwnRequests(RouteDecision):
    """The context of a router's own requests. They have no client to answer.

    The context outlives client connections. Many requests can be in flight at once, each with a call of its own.
    """

    def __init__(self, site: VirtualClusterPlace, place: RouterPlace) -> None:
        session = Session(site, random_seal(), f"router {place.name}", None)
        super().__init__(RoutedCall(session, Operation.OTHER), place, None)

    def states(self, route: str) -> Sequence[NodeState]:
        """Returns the states of a route's nodes. Raises UnknownRoute."""
        if route not in self.place.routes:
            raise UnknownRoute(f"the router {self.place.name!r} has no route {route!r}")
        label = self.place.label
        return tuple(
            NodeState(VirtualNode(label, route, number), node.state)
            for number, _, node in nodes(self.place.routes[route].target)
        )

    async def send_request(self, node: VirtualNode, request: Request) -> Response:
        call = RoutedCall(self.call.session, request.operation)
        return await RouteDecision(call, self.place, None).send_request(node, request)

    def respond_with(self, *_: Any, **__: Any) -> RouterResponse:
        raise RuntimeError("a router's own request has no client to answer")

    respond_with_error = respond_without_reply = respond_with


def bind(site: VirtualClusterPlace) -> None:
    """Gives each router's topology the context of the router's own requests."""
    for place in places(site):
        if isinstance(place, RouterPlace) and place.context.topology is not None:
            place.context.topology.own = OwnRequests(site, place)


def start(site: VirtualClusterPlace) -> None:
    """Starts the background work of a virtual cluster's routers, once.

    A router with several places works only in the first place.
    """
    if site.working is not None:
        return
    routers = {place.name: place for place in reversed(list(places(site))) if isinstance(place, RouterPlace)}
    site.working = [
        asyncio.get_running_loop().create_task(keep_doing(place.name, work, OwnRequests(site, place)))
        for place in routers.values()
        for work in place.context.works
    ]


async def keep_doing(name: str, work: Work, context: RouterContext) -> None:
    """Runs a router's work until this task is cancelled. After an exception the work restarts, after growing pauses."""
    rest = FIRST_REST_SECONDS
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await work(context)
        except Exception:
            log.exception("The background work of the router %r failed. Restarting", name)
        if asyncio.get_running_loop().time() - began > LONGEST_REST_SECONDS:
            rest = FIRST_REST_SECONDS  # the work had run for a while
        await asyncio.sleep(rest)
        rest = min(rest * 2, LONGEST_REST_SECONDS)
