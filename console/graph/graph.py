"""The graph page: topics, routers and readers as a picture and as tables, followed by the gateways (gateway_graph.py)."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from base.clock import now_ms
from base.units import amount, duration
from console import gateways
from console.graph import gateway_graph
from console.graph.causes import parts_played
from console.graph.drawing import TooLong
from console.graph.fans import fans
from console.graph.leaves import leaves
from console.graph.namespaces import namespaces
from console.graph.network import Edge, GraphPart, Network, TopicNode, network, survey
from console.graph.picture import NetworkPicture, PictureEdge, PictureNode
from console.graph.replay import replayed, slider
from console.health.problems import READY_MS
from console.history.charts import short
from console.live.live import encoded, part
from console.site import Console, whole
from console.templatetags.console import router_url, topic_url
from queues.figures import QueueFigures, named
from store.script import run

MOST_IN_TABLE = 50
MOST_HOPS = 6


class DrawnRouter(NamedTuple):
    """A router in words."""

    name: str
    source: str
    dest: str
    state: str
    rate: float | None
    lag: int
    oldest_ms: int | None
    cyclic: bool = False
    ordered: bool = False


class ShownGraph(NamedTuple):
    """The picture of the page, and the routers in words with the worst first. `network`: None if the picture has a block for each
    namespace."""

    picture: NetworkPicture
    rows: list[DrawnRouter]
    network: Network | None


def shown(wanted: GraphPart, now: int) -> ShownGraph:
    """Returns the picture of this part of the graph: of its topics, or if they are too many, of their namespaces."""
    seen = survey(wanted)
    if not seen.fits and not wanted.focus:
        blocks = namespaces(wanted.prefix, seen.routers, now)
        if len(blocks.blocks) > 1:
            rows = [DrawnRouter(e.name, e.source, e.dest, e.state, None, e.lag, e.oldest_ms) for e in blocks.troubled]
            return ShownGraph(blocks.picture(), rows, None)
    found = network(seen, now)
    if wanted.at:
        found = replayed(found, wanted.at)
    worst = sorted(found.edges, key=lambda edge: (edge.state not in ("blocked", "stalled"), -edge.lag, edge.name))
    return ShownGraph(pictured(found, wanted, now), [row_of(edge, found) for edge in worst], found)


def row_of(edge: Edge, shown: Network) -> DrawnRouter:
    source, dest = shown.topics[edge.source_id].name, shown.topics[edge.dest_id].name
    return DrawnRouter(
        edge.name, source, dest, edge.state, edge.rate, edge.lag, edge.oldest_ms, edge.cyclic, edge.ordered
    )


def pictured(shown: Network, wanted: GraphPart, now: int) -> NetworkPicture:
    """Returns the picture of topics, the routers between them, and what hangs on the topics.

    Queues and readers have no past. They keep their places, so that no other node moves.
    """
    parts, looks = parts_played(shown.edges), looks_of(shown)
    queues = {each.name: each for each in run(named([node.name for node in shown.topics.values()], now))}
    hung = leaves(shown.topics, list(queues.values()), now)
    if wanted.at:
        hung = hung._replace(nodes=[each._replace(figure="", words=each.name, look="") for each in hung.nodes])
    ends = {end for edge in hung.edges for end in (edge.source, edge.dest)}
    touched = {id for id, node in shown.topics.items() if f"n{id}" in ends or node.name in (wanted.focus, *queues)}
    folded = fans(shown.topics, shown.edges, touched, wanted.open)
    drawn = [fan.drawn(opened(wanted, fan.source), parts.get(fan.worst.id, "")) for fan in folded]
    dests = {each.id for fan in folded for each in fan.dests}
    routers = {each.id for fan in folded for each in fan.edges}
    nodes = [node for node, _ in drawn] + [
        topic_node(node, queues.get(node.name), looks.get(id, ""), wanted.at)
        for id, node in sorted(shown.topics.items())
        if id not in dests
    ]
    edges = [edge for _, edge in drawn] + [
        router_edge(edge, parts.get(edge.id, "")) for edge in shown.edges if edge.id not in routers
    ]
    return NetworkPicture(nodes + hung.nodes, edges + hung.edges, wanted.focus)


def opened(wanted: GraphPart, source: TopicNode) -> str:
    """Returns the address of the picture that shows each router of a fan-out."""
    return f"?{urlencode({**wanted._asdict(), 'open': source.name})}"


def router_edge(edge: Edge, role: str) -> PictureEdge:
    is_told = edge.lag and (edge.look not in ("fresh", "late") or role)
    mark = f"{short(edge.lag)} behind" if is_told else ""
    return PictureEdge(
        f"e{edge.id}",
        f"n{edge.source_id}",
        f"n{edge.dest_id}",
        edge.name,
        edge.words,
        router_url(edge.name),
        f"{edge.look} {role}".strip(),
        edge.width,
        f"{mark} {'↻' if edge.cyclic else ''}".strip(),
        duration(edge.oldest_ms) if is_told and edge.oldest_ms is not None else "",
        edge.speed,
        reverse("admin:console_router_panel", args=[edge.name]),
    )


def looks_of(shown: Network) -> dict[int, str]:
    """Returns the looks of topics with late or blocked routers into them: bad or unsure, by the worst of these routers."""
    found: dict[int, str] = {}
    for edge in shown.edges:
        look = "bad" if edge.look in ("blocked", "old") else "unsure" if edge.look in ("late", "stalled") else ""
        if look and found.get(edge.dest_id) != "bad":
            found[edge.dest_id] = look
    return found


def topic_node(node: TopicNode, queue: QueueFigures | None, look: str, at: int) -> PictureNode:
    figure, words = node.figure, node.words
    if queue is not None and not at:
        figure = f"{amount(queue.ready)} ready, {amount(queue.in_flight)} in flight"
        oldest = "" if queue.oldest_ready_ms is None else f", the oldest for {duration(queue.oldest_ready_ms)}"
        words = f"{node.name}: {amount(queue.ready)} ready jobs{oldest}, {amount(queue.in_flight)} in flight"
        look = look or ("unsure" if (queue.oldest_ready_ms or 0) > READY_MS else "")
    panel = reverse("admin:console_topic_panel", args=[node.name])
    return PictureNode(
        f"n{node.id}", node.name, figure, words, topic_url(node.name), "queue" if queue else "topic", look, panel
    )


def wanted_of(query: dict[str, str]) -> GraphPart:
    hops, at = whole(query.get("hops", "2")), slider(whole(query.get("at", "")) or 0, now_ms())
    return GraphPart(
        query.get("prefix", ""),
        query.get("focus", ""),
        2 if hops is None else min(hops, MOST_HOPS),
        query.get("open", ""),
        at.at if at.is_past else 0,
    )


def page(site: Console, request: HttpRequest) -> HttpResponse:
    wanted = wanted_of(request.GET.dict())
    seen = shown(wanted, now_ms())
    try:
        picture: SafeString | str = seen.picture.draw() if seen.picture.nodes else ""
        too_long = False
    except TooLong:
        picture, too_long = "", True
    return site.page(
        request,
        "console/graph.html",
        title="Graph",
        wanted=wanted,
        slider=slider(wanted.at, now_ms()),
        shown=seen.network,
        picture=picture,
        too_long=too_long,
        live=urlencode(wanted._asdict()),
        rows=seen.rows[:MOST_IN_TABLE],
        more=len(seen.rows) > MOST_IN_TABLE,
        gateways=gateway_graph.shown(gateways.seen()) if settings.TOPICS_GATEWAYS else None,
    )


@part("graph", "routers.view_router", event="graph")
def live(subject: str) -> str:
    """Returns numbers and colours by the picture's ids, and a hash of the structure."""
    wanted = wanted_of({key: values[-1] for key, values in parse_qs(subject).items()})
    return encoded(shown(wanted, now_ms()).picture.live())
