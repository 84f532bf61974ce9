"""A picture of nodes and the edges between them: its SVG, and what of it changes while a page shows it.

The layout depends only on names and ends, so numbers and states never move a node. The ids are those of the page, and
each is there once.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.graph.drawing import HEIGHT, box, lay_out, middle, tip, width_of
from console.graph.layout import Laid

DASH = 24.0  # points from one dash of a flow to the next
# The least width of a node in points. A figure has room in it, whatever its numbers become, so that numbers never move a node.
LEAST_WIDTH = {"topic": 0.0, "queue": 150.0, "reader": 130.0, "namespace": 150.0, "fan": 210.0}


class PictureNode(NamedTuple):
    """A node. `look`: bad, unsure or nothing. `kind`: of LEAST_WIDTH. `panel`: where its panel is, if it has one."""

    id: str
    name: str
    figure: str
    words: str
    url: str
    kind: str = "topic"
    look: str = ""
    panel: str = ""

    @property
    def width(self) -> float:
        return max(width_of(self.name), LEAST_WIDTH[self.kind])


class PictureEdge(NamedTuple):
    """An edge between two nodes. `look`: its classes. `mark`, `under`: texts above and below its
    middle. `speed`: of its dashes, in points a second."""

    id: str
    source: str
    dest: str
    name: str = ""
    words: str = ""
    url: str = ""
    look: str = "reads"
    width: float = 1.2
    mark: str = ""
    under: str = ""
    speed: float = 0.0
    panel: str = ""

    @property
    def seconds(self) -> float:
        """Returns how long a dash takes to the place of the next one, or 0 if nothing flows."""
        return round(DASH / self.speed, 2) if self.speed else 0.0


class NetworkPicture(NamedTuple):
    nodes: list[PictureNode]
    edges: list[PictureEdge]
    focus: str = ""

    @property
    def structure(self) -> str:
        """Returns a hash of what is drawn where. A page sees by it that the picture is another one."""
        drawn = (
            sorted((node.id, node.name) for node in self.nodes),
            sorted((e.id, e.source, e.dest) for e in self.edges),
        )
        return hashlib.sha256(msgspec.json.encode(drawn)).hexdigest()[:16]

    def live(self) -> dict[str, Any]:
        """Returns the numbers and colours by id, as console/static/console/graph.js reads them."""
        return {
            "structure": self.structure,
            "edges": {e.id: (e.look, e.width, e.words, e.mark, e.under, e.seconds) for e in self.edges if e.url},
            "nodes": {node.id: (node.figure, node.words, node.look) for node in self.nodes},
        }

    def draw(self) -> SafeString:
        """Returns the SVG. Raises TooLong."""
        sizes = {node.id: (node.width, float(HEIGHT)) for node in self.nodes}
        key, laid = lay_out(sizes, {edge.id: (edge.source, edge.dest) for edge in self.edges})
        width, height = round(laid.width + 24), round(laid.height + 24)
        return format_html(
            '<svg id="network" viewBox="-12 -12 {} {}" data-key="{}" width="{}" height="{}" role="group" '
            'aria-label="Topics, and the routers between them">{}{}</svg>',
            width,
            height,
            key,
            width,
            height,
            format_html_join("", "{}", ((draw_edge(edge, laid),) for edge in self.edges)),
            format_html_join(
                "", "{}", ((draw_node(node, laid.nodes[node.id], node.name == self.focus),) for node in self.nodes)
            ),
        )


def draw_edge(edge: PictureEdge, laid: Laid) -> SafeString:
    path, (x, y, to_x, to_y) = laid.edges[edge.id]
    at_x, at_y = middle(path)
    ends = format_html('data-from="{}" data-to="{}"', edge.source, edge.dest)
    if not edge.url:
        return format_html(
            '<g class="edge {}" {}><path class="line" d="{}" stroke-width="{}"/></g>',
            edge.look,
            ends,
            path,
            edge.width,
        )
    return format_html(
        '<a href="{}" aria-label="{}" data-name="{}" data-panel="{}"><g class="edge {}" id="{}" {}><title>{}</title>'
        '<path class="hit" d="{}"/><path class="line" d="{}" stroke-width="{}"/><path class="flow still" d="{}"/>'
        '<path class="tip" d="{}"/><text text-anchor="middle"><tspan x="{}" y="{}">{}</tspan> '
        '<tspan x="{}" y="{}">{}</tspan></text></g></a>',
        edge.url,
        " ".join(filter(None, (edge.name, edge.mark, edge.under))),
        edge.name,
        edge.panel,
        edge.look,
        edge.id,
        ends,
        edge.words,
        path,
        path,
        edge.width,
        path,
        tip(x, y, to_x, to_y),
        round(at_x),
        round(at_y - 5),
        edge.mark,
        round(at_x),
        round(at_y + 13),
        edge.under,
    )


def draw_node(node: PictureNode, at: tuple[float, float], focused: bool) -> SafeString:
    looks = " ".join(filter(None, ("node", node.kind, node.look, "focus" if focused else "")))
    return format_html(
        '<a href="{}" data-panel="{}"><g class="{}" id="{}"><title>{}</title>{}</g></a>',
        node.url,
        node.panel,
        looks,
        node.id,
        node.words,
        box(node.name, node.figure, at, node.width),
    )
