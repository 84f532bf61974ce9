"""A router's own requests and background work, without a client.

The requests pass the filters of the router's routes, but not the filters of the virtual cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from gateway.api import ANONYMOUS, NodeState, Operation, Request, Response, RouterContext, RouterResponse, VirtualNode
from gateway.configuration.graph import RouterPlace, VirtualClusterPlace, Work, nodes, places
from gateway.configuration.keys import random_seal
from gateway.errors import UnknownRoute
from gateway.proxy.calls import RoutedCall, RouteDecision, Session

log = logging.getLogger(__name__)
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 30.0


class OwnRequests(RouterContext):
    """The context of a router's own requests.

    The context outlives client connections. Many requests can be in flight at once.
    """

    def __init__(self, site: VirtualClusterPlace, place: RouterPlace) -> None:
        self.place = place
        self.session = Session(site, random_seal(), f"router {place.name}", None)
        self.virtual_node, self.session_id, self.authenticated_subject = None, self.session.id, ANONYMOUS

    def states(self, route: str) -> Sequence[NodeState]:
        """Returns the states of a route's nodes. Raises UnknownRoute."""
        if route not in self.place.routes:
            raise UnknownRoute(f"the router {self.place.name!r} has no route {route!r}")
        label = self.place.label
        return tuple(
            NodeState(VirtualNode(label, route, number), node.state)
            for number, _, node in nodes(self.place.routes[route].target)
        )

    def decision(self, operation: Operation = Operation.OTHER) -> RouteDecision:
        return RouteDecision(RoutedCall(self.session, operation), self.place, None)

    def any_node(self, route: str) -> VirtualNode:
        return self.decision().any_node(route)

    def node_for_id(self, virtual_node_id: int) -> VirtualNode:
        return self.decision().node_for_id(virtual_node_id)

    async def send_request(self, node: VirtualNode, request: Request) -> Response:
        return await self.decision(request.operation).send_request(node, request)

    def respond_with(self, response: Response, *, close_connection: bool = False) -> RouterResponse:
        raise RuntimeError("a router's own request has no client to answer")

    def respond_with_error(
        self, request: Request, error: Exception, *, close_connection: bool = False
    ) -> RouterResponse:
        raise RuntimeError("a router's own request has no client to answer")

    def respond_without_reply(self) -> RouterResponse:
        raise RuntimeError("a router's own request has no client to answer")

    def seal(self, kind: str, value: Any) -> str:
        return self.decision().seal(kind, value)

    def unseal(self, kind: str, identifier: str) -> Any:
        return self.decision().unseal(kind, identifier)


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
