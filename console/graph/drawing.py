"""Draws a graph: Graphviz computes the layout, and we draw the SVG. A layout is kept until its graph changes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.utils.html import format_html
from django.utils.safestring import SafeString

from base.clock import now_ms
from console.graph import layout, packing
from console.graph.layout import Laid, LayoutRequest
from console.models import Layout

LABEL = 30  # characters of a node's name
CHARACTER, PADDING, HEIGHT = 6.9, 22, 38  # of a node, in points
MOST_KEPT = 200  # number of layouts
# Part of the key, so that layouts of an older method are not used any more.
METHOD = hashlib.sha256(Path(layout.__file__).read_bytes() + Path(packing.__file__).read_bytes()).digest()
LAYOUT_SECONDS = 60  # Graphviz is stopped after this time


class TooLong(Exception):
    """Graphviz could not lay out the graph in time."""


def cut(name: str) -> str:
    """Returns a name as a node shows it. A long name keeps both ends, which say most."""
    return name if len(name) <= LABEL else f"{name[: LABEL // 2]}…{name[-LABEL // 2 + 1 :]}"


def width_of(name: str) -> float:
    return round(max(len(cut(name)), 10) * CHARACTER + PADDING, 1)


def lay_out(nodes: dict[str, tuple[float, float]], edges: dict[str, tuple[str, str]]) -> tuple[str, Laid]:
    """Returns the key and the layout of nodes with these sizes and edges. Raises TooLong."""
    wanted = renumbered(LayoutRequest(nodes, edges))
    body = msgspec.json.encode(wanted)
    key = hashlib.sha256(METHOD + body).hexdigest()
    kept = Layout.objects.filter(key=key).values_list("layout", flat=True).first()
    if kept is None:
        kept = ask_graphviz(body)
        Layout.objects.update_or_create(key=key, defaults={"layout": kept, "used_ts": now_ms()})
        old = Layout.objects.order_by("-used_ts").values_list("pk", flat=True)[MOST_KEPT:]
        Layout.objects.filter(pk__in=list(old)).delete()
    return key, restored(msgspec.json.decode(kept, type=Laid), nodes, edges)


def renumbered(graph: LayoutRequest) -> LayoutRequest:
    """Returns the graph with numbers as ids, for Graphviz."""
    nodes = {id: str(place) for place, id in enumerate(graph.nodes)}
    edges = {str(place): (nodes[tail], nodes[head]) for place, (tail, head) in enumerate(graph.edges.values())}
    return LayoutRequest({nodes[id]: size for id, size in graph.nodes.items()}, edges)


def restored(laid: Laid, nodes: dict[str, Any], edges: dict[str, Any]) -> Laid:
    """Returns the layout with our ids again."""
    return Laid(
        laid.width,
        laid.height,
        {id: laid.nodes[str(place)] for place, id in enumerate(nodes)},
        {id: laid.edges[str(place)] for place, id in enumerate(edges)},
    )


def ask_graphviz(body: bytes) -> str:
    """Runs Graphviz in its own process, which ends with this call. Returns the layout as JSON. Raises TooLong."""
    command = [sys.executable, "-m", "console.graph.layout"]
    try:
        done = subprocess.run(
            command, input=body, capture_output=True, timeout=LAYOUT_SECONDS, cwd=settings.BASE_DIR, check=True
        )
    except subprocess.TimeoutExpired as error:
        raise TooLong("Graphviz did not finish in time") from error
    return done.stdout.decode()


def tip(x: float, y: float, to_x: float, to_y: float, size: float = 8) -> str:
    """Returns the SVG path of an arrow's tip at (to_x, to_y), for a line from (x, y)."""
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5 or 1
    dx, dy = (to_x - x) / length * size, (to_y - y) / length * size
    return (
        f"M{to_x:.1f} {to_y:.1f}L{to_x - dx - dy / 2:.1f} {to_y - dy + dx / 2:.1f}"
        f"L{to_x - dx + dy / 2:.1f} {to_y - dy - dx / 2:.1f}Z"
    )


def middle(path: str) -> tuple[float, float]:
    """Returns the point of an SVG path of cubic curves that is halfway along its curves."""
    points = packing.points(path)
    curves = (len(points) - 1) // 3
    if curves % 2 == 0:
        return points[3 * (curves // 2)]
    (x, y), (x1, y1), (x2, y2), (x3, y3) = points[3 * (curves // 2) :][:4]
    return (x + 3 * x1 + 3 * x2 + x3) / 8, (y + 3 * y1 + 3 * y2 + y3) / 8


def box(name: str, figure: str, at: tuple[float, float], least: float = 0.0) -> SafeString:
    """Returns a node's rectangle with its two lines of text, at least `least` points wide."""
    width = max(width_of(name), least)
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
