"""The graph page: topics, routers and readers as a picture and as tables, followed by the gateways (gateway_graph.py)."""

from __future__ import annotations

import hashlib
from urllib.parse import parse_qs, urlencode

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from base.clock import now_ms
from console import charts, gateway_graph, gateways, series
from console.drawing import HEIGHT, TooLong, box, lay_out, tip, width_of
from console.layout import Laid
from console.live import encoded, part
from console.network import Edge, Network, Node, Reader, Wanted, network
from console.site import Console
from console.templatetags.console import router_url, topic_url

MOST_IN_TABLE = 100
MOST_HOPS = 6


def laid_out(shown: Network) -> tuple[str, Laid]:
    """Returns the key and the layout. The layout depends only on names and ends, so numbers and states never move a node.
    Raises TooLong."""
    nodes = {str(id): (width_of(node.name), float(HEIGHT)) for id, node in sorted(shown.topics.items())}
    nodes.update({reader.id: (width_of(reader.name), float(HEIGHT)) for reader in shown.readers})
    edges = {str(edge.id): (str(edge.source_id), str(edge.dest_id)) for edge in shown.edges}
    edges.update({f"r{reader.id}": (str(reader.topic_id), reader.id) for reader in shown.readers})
    return lay_out(nodes, edges)


def draw(shown: Network, focus: str) -> SafeString:
    """Returns the SVG. Raises TooLong."""
    key, laid = laid_out(shown)
    edges = [draw_edge(edge, laid) for edge in shown.edges]
    reads = format_html_join(
        "",
        '<g class="edge reads"><path class="line" d="{}" stroke-width="1.2"/></g>',
        ((laid.edges[f"r{reader.id}"][0],) for reader in shown.readers),
    )
    nodes = [draw_topic(node, laid.nodes[str(id)], node.name == focus) for id, node in shown.topics.items()]
    readers = [draw_reader(reader, laid.nodes[reader.id]) for reader in shown.readers]
    width, height = laid.width + 24, laid.height + 90
    return format_html(
        '<svg id="network" viewBox="-12 -12 {} {}" data-key="{}" width="{}" role="group" '
        'aria-label="Topics, and the routers between them">{}{}{}{}</svg>',
        width,
        height,
        key,
        max(int(width * 1.4), 480) if width < 1200 else "100%",
        reads,
        format_html_join("", "{}", ((each,) for each in edges)),
        format_html_join("", "{}", ((each,) for each in nodes)),
        format_html_join("", "{}", ((each,) for each in readers)),
    )


def draw_edge(edge: Edge, laid: Laid) -> SafeString:
    path, (x, y, to_x, to_y) = laid.edges[str(edge.id)]
    return format_html(
        '<a href="{}" aria-label="{}"><g class="edge {}" id="e{}"><title>{}</title><path class="hit" d="{}"/>'
        '<path class="line" d="{}" stroke-width="{}"/><path class="tip" d="{}"/>{}</g></a>',
        router_url(edge.name),
        edge.name,
        edge.look,
        edge.id,
        edge.words,
        path,
        path,
        edge.width,
        tip(x, y, to_x, to_y),
        format_html('<text x="{}" y="{}">↻</text>', round((x + to_x) / 2), round((y + to_y) / 2 - 5))
        if edge.cyclic
        else "",
    )


def draw_topic(node: Node, at: tuple[float, float], focused: bool) -> SafeString:
    return format_html(
        '<a href="{}"><g class="node{}" id="n{}"><title>{}</title>{}</g></a>',
        topic_url(node.name),
        " focus" if focused else "",
        node.id,
        node.words,
        box(node.name, node.figure, at),
    )


def draw_reader(reader: Reader, at: tuple[float, float]) -> SafeString:
    words = f"{reader.name}, {reader.figure}"
    return format_html('<g class="node reader"><title>{}</title>{}</g>', words, box(reader.name, reader.figure, at))


def wanted_of(query: dict[str, str]) -> Wanted:
    hops = query.get("hops", "2")
    return Wanted(
        query.get("prefix", ""), query.get("focus", ""), min(int(hops[:9]), MOST_HOPS) if hops.isdecimal() else 2
    )


def page(site: Console, request: HttpRequest) -> HttpResponse:
    wanted, now = wanted_of(request.GET.dict()), now_ms()
    shown = network(wanted, now)
    try:
        picture: SafeString | str = draw(shown, wanted.focus) if shown.topics else ""
        too_long = False
    except TooLong:
        picture, too_long = "", True
    worst = sorted(shown.edges, key=lambda edge: (edge.state not in ("blocked", "stalled"), -edge.lag, edge.name))
    listed = worst[:MOST_IN_TABLE]
    lags = series.read("router", [edge.id for edge in listed], series.window("3h", now))
    return site.page(
        request,
        "console/graph.html",
        title="Graph",
        wanted=wanted,
        shown=shown,
        picture=picture,
        too_long=too_long,
        small=len(shown.topics) <= 12,
        live=urlencode(wanted._asdict()),
        rows=[
            (
                edge,
                shown.topics[edge.source_id].name,
                shown.topics[edge.dest_id].name,
                charts.sparkline(lags[edge.id].values("lag"), "records behind"),
            )
            for edge in listed
        ],
        hidden=len(worst) - len(listed),
        gateways=gateway_graph.shown(gateways.seen()) if settings.TOPICS_GATEWAYS else None,
    )


@part("graph", "routers.view_router", event="graph")
def live(subject: str) -> str:
    """Returns numbers and colours by the picture's ids, and a hash of the structure. A page sees by the hash that the graph
    changed."""
    wanted = wanted_of({key: values[-1] for key, values in parse_qs(subject).items()})
    shown = network(wanted, now_ms())
    structure = [
        sorted((id, node.name) for id, node in shown.topics.items()),
        [(e.id, e.source_id, e.dest_id) for e in shown.edges],
    ]
    return encoded(
        {
            "structure": hashlib.sha256(msgspec.json.encode(structure)).hexdigest()[:16],
            "edges": {f"e{edge.id}": (edge.look, edge.width, edge.words) for edge in shown.edges},
            "nodes": {f"n{id}": (node.figure, node.words) for id, node in shown.topics.items()},
        }
    )
