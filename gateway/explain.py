"""Explains a configuration to people: the graph, and the way of one request."""

from __future__ import annotations

from collections.abc import Iterator

from base.errors import TopicsError
from gateway.api import Request, Response, Subject
from gateway.configuration.graph import ClusterPlace, FilterPlace, RouterPlace, VirtualClusterPlace
from gateway.configuration.keys import random_seal
from gateway.proxy.calls import RoutedCall, Session


def graph(sites: dict[str, VirtualClusterPlace]) -> Iterator[str]:
    """Yields the lines of the graph, from the virtual clusters down."""
    for site in sites.values():
        addresses = ", ".join([*(f"host {host}" for host in site.hosts), *(f"prefix {each}" for each in site.prefixes)])
        yield f"virtual cluster {site.name} ({addresses}){through(site.filters)}"
        yield from below(site.root, "  ")
        for operation, why in site.not_offered.items():
            yield f"  not offered (501): {operation.value}: {why}"


def below(place: ClusterPlace | RouterPlace, indent: str) -> Iterator[str]:
    if isinstance(place, ClusterPlace):
        yield f"{indent}cluster {place.name}: {', '.join(node.url for node in place.cluster.nodes)}"
        return
    yield f"{indent}router {place.name} ({type(place.factory).__name__.removesuffix('Factory')})"
    for route in place.routes.values():
        yield f"{indent}  route {route.name} (id {route.id}){through(route.filters)}"
        yield from below(route.target, indent + "    ")


def through(filters: list[FilterPlace]) -> str:
    return f", filters {', '.join(each.name for each in filters)}" if filters else ""


class DrySession(Session):
    """A connection whose requests reach no server. `steps`: the sends that were skipped."""

    def __init__(self, site: VirtualClusterPlace) -> None:
        super().__init__(site, random_seal(), "explain", None)
        self.steps: list[str] = []

    async def send(
        self, call: RoutedCall, place: ClusterPlace, request: Request, node_id: int | None, *, is_any: bool
    ) -> Response:
        node = "any node" if is_any or node_id is None else f"node {node_id}"
        way = " / ".join(place.way) or "no route"
        query = f"?{request.query}" if request.query else ""
        self.steps.append(f"{way} -> cluster {place.name}, {node}: {request.method} {request.path}{query}")
        return Response.json(200, {})


async def explain(site: VirtualClusterPlace, method: str, path: str, subject: str | None) -> list[str]:
    """Returns the steps of a request from `subject`.

    No request reaches a server, and the virtual cluster's filters do not run.
    """
    bare, _, query = path.partition("?")
    request = Request(method, bare, query)
    session = DrySession(site)
    call = RoutedCall(session, request.operation)
    call.subject = Subject(subject)
    steps = [f"virtual cluster {site.name}{through(site.filters)}", f"operation {request.operation.value}"]
    if request.topic is not None:
        steps[-1] += f", topic {request.topic}"
    try:
        decided = await call.root(request, None, None)
        if isinstance(site.root, RouterPlace):
            steps.append(f"router {site.root.name}: {reason(session, site.root, request)}")
        steps += session.steps
        if not session.steps and decided.response is not None:
            steps.append(f"answered by the router: {decided.response.status}")
    except TopicsError as error:
        steps += [*session.steps, f"refused: {error.status} {error.code}: {error.message}"]
    session.close()
    return steps


def reason(session: DrySession, place: RouterPlace, request: Request) -> str:
    """Returns the router's own reason for its decision (`explain(request)`), or the router's type."""
    if place.static:
        return "a static route, without a decision"
    router = session.router(place)
    return router.explain(request) or type(router).__name__
