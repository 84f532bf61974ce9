"""The graph page: Graphviz says where things are, we draw them as SVG; the layout is kept until the graph changes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from base.clock import now_ms
from console import charts, layout, series
from console.layout import Laid
from console.layout import Wanted as ToLay
from console.live import encoded, part
from console.models import Layout
from console.network import Edge, Network, Node, Reader, Wanted, network
from console.site import Console
from console.templatetags.console import router_url, topic_url

LABEL = 30  # characters of a node's name
CHARACTER, PADDING, HEIGHT = 6.9, 22, 38  # of a node, in points
MOST_KEPT = 200  # layouts
MOST_IN_TABLE = 100
METHOD = hashlib.sha256(
    Path(layout.__file__).read_bytes()
).digest()  # a layout made in another way is not used any more
LAYOUT_SECONDS = 60  # Graphviz is given up after this
MOST_HOPS = 6


class TooLong(Exception):
    """Graphviz could not lay the graph out in time."""


def cut(name: str) -> str:
    """A name as a node shows it: its ends, which tell most."""
    return name if len(name) <= LABEL else f"{name[: LABEL // 2]}…{name[-LABEL // 2 + 1 :]}"


def width_of(name: str) -> float:
    return round(max(len(cut(name)), 10) * CHARACTER + PADDING, 1)


def laid_out(shown: Network) -> tuple[str, Laid]:
    """The layout, and its key. It depends on names and ends only, so numbers and states never move a node. Raises TooLong."""
    nodes = {str(id): (width_of(node.name), float(HEIGHT)) for id, node in sorted(shown.topics.items())}
    nodes.update({reader.id: (width_of(reader.name), float(HEIGHT)) for reader in shown.readers})
    edges = {str(edge.id): (str(edge.source_id), str(edge.dest_id)) for edge in shown.edges}
    edges.update({f"r{reader.id}": (str(reader.topic_id), reader.id) for reader in shown.readers})
    wanted = renumbered(ToLay(nodes, edges))
    body = msgspec.json.encode(wanted)
    key = hashlib.sha256(METHOD + body).hexdigest()
    kept = Layout.objects.filter(key=key).values_list("layout", flat=True).first()
    if kept is None:
        kept = ask_graphviz(body)
        Layout.objects.update_or_create(key=key, defaults={"layout": kept, "used_ts": now_ms()})
        old = Layout.objects.order_by("-used_ts").values_list("pk", flat=True)[MOST_KEPT:]
        Layout.objects.filter(pk__in=list(old)).delete()
    return key, restored(msgspec.json.decode(kept, type=Laid), nodes, edges)


def renumbered(graph: ToLay) -> ToLay:
    """With plain numbers for ids, as Graphviz takes them."""
    nodes = {id: str(place) for place, id in enumerate(graph.nodes)}
    edges = {str(place): (nodes[tail], nodes[head]) for place, (tail, head) in enumerate(graph.edges.values())}
    return ToLay({nodes[id]: size for id, size in graph.nodes.items()}, edges)


def restored(laid: Laid, nodes: dict[str, Any], edges: dict[str, Any]) -> Laid:
    """With our ids again."""
    return Laid(
        laid.width,
        laid.height,
        {id: laid.nodes[str(place)] for place, id in enumerate(nodes)},
        {id: laid.edges[str(place)] for place, id in enumerate(edges)},
    )


def ask_graphviz(body: bytes) -> str:
    """In a process of its own, which ends with this call. Raises TooLong."""
    command = [sys.executable, "-m", "console.layout"]
    try:
        done = subprocess.run(
            command, input=body, capture_output=True, timeout=LAYOUT_SECONDS, cwd=settings.BASE_DIR, check=True
        )
    except subprocess.TimeoutExpired as error:
        raise TooLong("Graphviz took too long") from error
    return done.stdout.decode()


def draw(shown: Network, focus: str) -> SafeString:
    """The SVG. Raises TooLong."""
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


def tip(x: float, y: float, to_x: float, to_y: float, size: float = 8) -> str:
    """An arrow's tip at the end of a line that comes from (x, y)."""
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5 or 1
    dx, dy = (to_x - x) / length * size, (to_y - y) / length * size
    return (
        f"M{to_x:.1f} {to_y:.1f}L{to_x - dx - dy / 2:.1f} {to_y - dy + dx / 2:.1f}"
        f"L{to_x - dx + dy / 2:.1f} {to_y - dy - dx / 2:.1f}Z"
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


def box(name: str, figure: str, at: tuple[float, float]) -> SafeString:
    width = width_of(name)
    return format_html(
        '<rect x="{}" y="{}" width="{}" height="{}" rx="5"/><text x="{}" y="{}" text-anchor="middle">{}</text>'
        '<text class="figure" x="{}" y="{}" text-anchor="middle">{}</text>',
        round(at[0] - width / 2, 1),
        round(at[1] - HEIGHT / 2, 1),
        width,
        HEIGHT,
        at[0],
        round(at[1] - 2, 1),
        cut(name),
        at[0],
        round(at[1] + 12, 1),
        figure,
    )


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
    )


@part("graph", "routers.view_router", event="graph")
def live(subject: str) -> str:
    """Numbers and colours, by the ids of the picture; and its key, by which a page sees that the graph is another one."""
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
