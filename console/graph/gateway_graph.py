"""The gateways' part of the graph page: gateways, virtual clusters, routers, clusters and nodes, as a picture and as tables.

Gateways with the same configuration lead to the same virtual clusters in the picture. Their states of a node and their counts of
a route are combined.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from base.units import amount
from console import gateways
from console.gateways import GatewayCluster, GatewayStatus, GatewayTarget, Rates, Seen, Way
from console.graph.drawing import HEIGHT, TooLong, box, lay_out, tip, width_of
from console.live.live import part
from console.templatetags.console import rate

LEAST_WIDTH = 128.0  # points, because a figure has more letters than a short name
MOST_NODES = 200  # nodes in one picture
UNKNOWN: tuple[float | None, float | None] = None, None  # the rate is unknown until the second answer
BAD = frozenset(("silent", "down", "draining"))
UNSURE = frozenset(("asked", "starting", "degraded", "unknown", "mixed"))


class Drawn(NamedTuple):
    """A node of the picture. `look`: ok, unsure or bad."""

    name: str
    figure: str
    words: str
    look: str = ""


class RouteRow(NamedTuple):
    virtual_cluster: str
    way: str
    leads_to: str
    rate: float | None
    errors: float | None


class NodeRow(NamedTuple):
    cluster: str
    node: int
    state: str
    told: str


class Served(NamedTuple):
    """A configuration, with the gateways that last answered with it."""

    configuration: str
    answer: GatewayStatus  # of one of the gateways, preferably of one that answers now
    gateways: list[Seen]

    @property
    def alive(self) -> list[Seen]:
        return [each for each in self.gateways if not each.failure]

    @property
    def rates(self) -> Rates:
        found: Rates = {}
        for each in self.alive:
            for way, (requests, errors) in each.rates.items():
                known = found.get(way, (0.0, 0.0))
                found[way] = known[0] + requests, known[1] + errors
        return found


def look(state: str) -> str:
    return "bad" if state in BAD else "unsure" if state in UNSURE else "ok"


def served(found: list[Seen]) -> list[Served]:
    """Returns the configurations, those with the most gateways first."""
    by_hash: defaultdict[str, list[Seen]] = defaultdict(list)
    for each in found:
        if each.answer is not None:
            by_hash[each.answer.configuration].append(each)
    made = []
    for configuration, those in by_hash.items():
        answer = min(those, key=lambda each: bool(each.failure)).answer
        assert answer is not None
        made.append(Served(configuration, answer, those))
    return sorted(made, key=lambda each: (-len(each.alive), each.configuration))


def state_of(served: Served, cluster: GatewayCluster, number: int) -> tuple[str, str]:
    """Returns a node's state, and the states in words that the gateways report. `mixed`: the gateways disagree."""
    told: dict[str, list[str]] = defaultdict(list)
    for each in served.alive or served.gateways:
        assert each.answer is not None
        for known in each.answer.clusters:
            if known.name == cluster.name:
                for node in known.nodes:
                    if node.id == number:
                        breaker = "" if node.breaker == "closed" else f", breaker {node.breaker.replace('_', ' ')}"
                        told[f"{node.state}{breaker}"].append(each.name)
    states = {each.partition(",")[0] for each in told}
    state = states.pop() if len(states) == 1 else "mixed"
    if len(told) == 1:
        return state, next(iter(told))
    return state, "; ".join(f"{what} at {', '.join(names)}" for what, names in told.items())


class Picture:
    """Nodes and edges of one picture. The ids are local to the picture."""

    def __init__(self) -> None:
        self.nodes: dict[str, Drawn] = {}
        self.edges: dict[str, tuple[str, str]] = {}

    def edge(self, tail: str, head: str) -> None:
        self.edges[f"{tail} {head}"] = tail, head

    def add(self, place: int, served: Served) -> None:
        rates = served.rates
        for each in served.answer.clusters:
            self.add_cluster(f"{place}/", served, each, rates)
        for site in served.answer.virtual_clusters:
            id = f"{place}/v/{site.name}"
            requests, errors = rates.get((site.name,), UNKNOWN)
            filters = f", filters {', '.join(site.filters)}" if site.filters else ""
            words = f"virtual cluster {site.name}{filters}: {rate(requests)}, errors {rate(errors)}"
            self.nodes[id] = Drawn(site.name, figure(requests, errors), words, "bad" if errors else "")
            self.lead(f"{place}/", id, (site.name,), site.target, rates)
            for gateway in served.gateways:
                self.edge(f"g/{gateway.name}", id)

    def lead(self, base: str, tail: str, way: Way, target: GatewayTarget, rates: Rates) -> None:
        """Adds the target of a virtual cluster or a route, with everything behind the target."""
        if target.cluster:
            self.edge(tail, f"{base}c/{target.cluster}")
            return
        id = f"{base}r/{'/'.join(way)}"
        requests, errors = rates.get(way, UNKNOWN)
        words = f"router {target.router} ({target.type}): {rate(requests)}, errors {rate(errors)}"
        self.nodes[id] = Drawn(target.router, target.type, words, "bad" if errors else "")
        self.edge(tail, id)
        for route in target.routes:
            self.lead(base, id, (*way, route.name), route.target, rates)

    def add_cluster(self, base: str, served: Served, cluster: GatewayCluster, rates: Rates) -> None:
        id = f"{base}c/{cluster.name}"
        for node in cluster.nodes:
            state, told = state_of(served, cluster, node.id)
            words = f"node {node.id} of cluster {cluster.name}: {told}"
            self.nodes[f"{id}/{node.id}"] = Drawn(f"node {node.id}", told, words, look(state))
            self.edge(id, f"{id}/{node.id}")
        into = [rates[way] for way, to in ways(served.answer) if to == cluster.name and way in rates]
        requests = sum(each[0] for each in into) if into else None
        errors = sum(each[1] for each in into) if into else None
        words = f"cluster {cluster.name}: {cluster.state}, {rate(requests)}, errors {rate(errors)}"
        self.nodes[id] = Drawn(cluster.name, figure(requests, errors), words, look(cluster.state))

    def draw(self) -> SafeString:
        """Returns the SVG. Raises TooLong."""
        sizes = {id: (max(width_of(node.name), LEAST_WIDTH), float(HEIGHT)) for id, node in self.nodes.items()}
        _, laid = lay_out(sizes, self.edges)
        width = laid.width + 24
        return format_html(
            '<svg viewBox="-12 -12 {} {}" width="{}" role="img" aria-label="Gateways and what they lead to: the tables'
            ' below say the same">{}{}</svg>',
            width,
            laid.height + 24,
            int(width * 1.3),
            format_html_join(
                "",
                '<g class="edge"><path class="line" d="{}" stroke-width="1.4"/><path class="tip" d="{}"/></g>',
                ((path, tip(*ends)) for path, ends in laid.edges.values()),
            ),
            format_html_join(
                "",
                '<g class="node {}"><title>{}</title>{}</g>',
                (
                    (node.look, node.words, box(node.name, cut(node.figure), laid.nodes[id], LEAST_WIDTH))
                    for id, node in self.nodes.items()
                ),
            ),
        )


def figure(requests: float | None, errors: float | None) -> str:
    return f"{rate(requests)}, errors {rate(errors)}" if errors else rate(requests)


def cut(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:23]}…"


def ways(answer: GatewayStatus) -> list[tuple[Way, str]]:
    """Returns each way that ends at a cluster, with the cluster's name."""
    return [(way, each.target.cluster) for way, each in answer.counts() if each.target.cluster]


def routes(served: Served) -> list[RouteRow]:
    rates = served.rates
    return [
        RouteRow(way[0], " / ".join(way[1:]), named(each.target), *rates.get(way, UNKNOWN))
        for way, each in served.answer.counts()
    ]


def named(target: GatewayTarget) -> str:
    return f"cluster {target.cluster}" if target.cluster else f"router {target.router} ({target.type})"


def node_rows(served: Served) -> list[NodeRow]:
    return [
        NodeRow(cluster.name, node.id, *state_of(served, cluster, node.id))
        for cluster in served.answer.clusters
        for node in cluster.nodes
    ]


def total(seen: Seen) -> tuple[float | None, float | None]:
    """Returns one gateway's requests and errors per second."""
    own = [each for way, each in seen.rates.items() if len(way) == 1]
    return (sum(each[0] for each in own), sum(each[1] for each in own)) if own else UNKNOWN


def draw(found: list[Seen], configurations: list[Served]) -> SafeString | str:
    """Returns the picture, or "" if it would be too large. The tables have the same content."""
    picture = Picture()
    for each in found:
        requests, _ = total(each)
        words = f"gateway {each.name}: {each.state}, {rate(requests)}" + (f" ({each.failure})" if each.failure else "")
        told = each.state if each.failure or requests is None else f"{each.state}, {rate(requests)}"
        picture.nodes[f"g/{each.name}"] = Drawn(each.name, told, words, look(each.state))
    for place, configuration in enumerate(configurations):
        picture.add(place, configuration)
    if len(picture.nodes) > MOST_NODES:
        return ""
    try:
        return picture.draw()
    except TooLong:
        return ""


def shown(found: list[Seen]) -> dict[str, Any]:
    """Returns the context of the template."""
    configurations = served(found)
    return {
        "gateways": [(each, *total(each)) for each in found],
        "silent": [each for each in found if each.failure],
        "disagree": len(
            {one for each in found if each.answer and not each.failure for one in each.answer.configurations}
        )
        > 1,
        "picture": draw(found, configurations),
        "too_large": amount(MOST_NODES),
        "configurations": [(each, routes(each), node_rows(each)) for each in configurations],
    }


@part("gateways", "routers.view_router")
def live(subject: str) -> str:
    return render_to_string("console/gateways_part.html", {"gateways": shown(gateways.seen(gateways.FIRST_SECONDS))})
