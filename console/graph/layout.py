"""Graphviz's layout of a graph, left to right.

Runs in its own process (`python -m console.graph.layout`), because Graphviz holds the interpreter's lock during its work, and a
large graph takes a second.

Reads a LayoutRequest as JSON and writes a Laid. Ids are numbers, so no text of users reaches Graphviz.
"""

from __future__ import annotations

import sys

import msgspec

from console.graph import packing

MANY = 150  # edges; with more, edges are simple curves, and Graphviz searches only briefly for few crossings
LONG = (
    6  # ranks; in a graph of many edges, Graphviz gets no edge over more ranks, which would need a point in each rank
)
BOW = 160.0  # largest height of the bow of such an edge above the nodes that it passes
DPI = 72.0
SHAPE = 1.5  # least width by height of a large picture


class LayoutRequest(msgspec.Struct):
    """Nodes with their sizes in points, and edges by id: from, to."""

    nodes: dict[str, tuple[float, float]]
    edges: dict[str, tuple[str, str]]


class Laid(msgspec.Struct):
    """The layout in points from the top left: centres of nodes, and SVG paths of edges with the direction of each tip."""

    width: float
    height: float
    nodes: dict[str, tuple[float, float]]
    edges: dict[str, tuple[str, tuple[float, float, float, float]]]


def graph_of(wanted: LayoutRequest) -> str:
    """Returns the graph in Graphviz's language."""
    many = len(wanted.edges) > MANY
    quick = "splines=none, nslimit=0.2, nslimit1=0.2, mclimit=0.05, searchsize=10," if many else "splines=true,"
    lines = [f"digraph {{ graph [rankdir=LR, {quick} nodesep=0.22, ranksep={1.6 if many else 1.2}];"]
    lines.append('node [shape=box, fixedsize=true, label=""]; edge [arrowhead=none];')
    lines += [
        f"n{id} [width={width / DPI:.3f}, height={height / DPI:.3f}];" for id, (width, height) in wanted.nodes.items()
    ]
    left_out = far(wanted) if many else set()
    lines += [f"n{tail} -> n{head} [id={id}];" for id, (tail, head) in wanted.edges.items() if id not in left_out]
    return "\n".join([*lines, "}"])


def far(wanted: LayoutRequest) -> set[str]:
    """Returns the edges that span more than LONG ranks. Ranks come from the longest ways, so a far edge never sets the rank of
    its head."""
    ranks = ranked(wanted)
    return {id for id, (tail, head) in wanted.edges.items() if abs(ranks[head] - ranks[tail]) > LONG}


def ranked(wanted: LayoutRequest) -> dict[str, int]:
    """Returns the number of edges on the longest way to each node. If only cycles remain, one of their nodes counts as
    reached."""
    heads: dict[str, list[str]] = {id: [] for id in wanted.nodes}
    waits = dict.fromkeys(wanted.nodes, 0)  # number of tails to wait for
    for tail, head in wanted.edges.values():
        heads[tail].append(head)
        waits[head] += 1
    ranks = dict.fromkeys(wanted.nodes, 0)
    ready, unreached = [id for id in wanted.nodes if not waits[id]], dict.fromkeys(wanted.nodes)
    while unreached:
        node = ready.pop() if ready else next(iter(unreached))
        if node not in unreached:
            continue
        del unreached[node]
        for head in heads[node]:
            waits[head] -= 1
            if head in unreached:
                ranks[head] = max(ranks[head], ranks[node] + 1)
                if not waits[head]:
                    ready.append(head)
    return ranks


def lay_out(wanted: LayoutRequest) -> Laid:
    import pygraphviz

    graph = pygraphviz.AGraph(string=graph_of(wanted))
    drawn = msgspec.json.decode(graph.draw(format="json0", prog="dot"))
    left, bottom, right, top = (float(number) for number in drawn["bb"].split(","))
    # Hundreds of topics in a few ranks form a column. The picture is stretched to the shape of a screen.
    many = len(wanted.edges) > MANY
    stretch = max(SHAPE * (top - bottom) / max(right - left, 1), 1.0) if many else 1.0
    nodes = {}
    for each in drawn.get("objects", ()):
        x, y = (float(number) for number in each["pos"].split(","))
        nodes[each["name"][1:]] = (round((x - left) * stretch, 1), round(top - y, 1))
    if not many:
        edges = {each["id"]: spline(each["pos"], left, top) for each in drawn.get("edges", ())}
        return packed(wanted, Laid(round(right - left, 1), round(top - bottom, 1), nodes, edges))
    above = far(wanted)
    room = BOW if above else 0.0
    nodes = {id: (x, round(y + room, 1)) for id, (x, y) in nodes.items()}
    edges = {
        id: curve_between(nodes[tail], nodes[head], wanted.nodes[tail], wanted.nodes[head], id in above)
        for id, (tail, head) in wanted.edges.items()
    }
    return packed(wanted, Laid(round((right - left) * stretch, 1), round(top - bottom + room, 1), nodes, edges))


def packed(wanted: LayoutRequest, laid: Laid) -> Laid:
    """Returns the layout with its parts packed into the shape of a screen. Within a part, nothing moves."""
    part_of = packing.parts(wanted.nodes, wanted.edges.values())
    corners: dict[str, list[tuple[float, float]]] = {part: [] for part in part_of.values()}
    if len(corners) == 1:
        return laid
    for id, (x, y) in laid.nodes.items():
        width, height = wanted.nodes[id]
        corners[part_of[id]] += [(x - width / 2, y - height / 2), (x + width / 2, y + height / 2)]
    for id, (path, _) in laid.edges.items():
        corners[part_of[wanted.edges[id][0]]] += packing.points(path)
    boxes = [(*map(min, zip(*each, strict=True)), *map(max, zip(*each, strict=True))) for each in corners.values()]
    places = packing.places([(right - left, bottom - top) for left, top, right, bottom in boxes])
    shifts = {
        part: (to_x - left, to_y - top)
        for part, (left, top, _, _), (to_x, to_y) in zip(corners, boxes, places, strict=True)
    }
    return Laid(
        round(max(x + right - left for (left, _, right, _), (x, _) in zip(boxes, places, strict=True)), 1),
        round(max(y + bottom - top for (_, top, _, bottom), (_, y) in zip(boxes, places, strict=True)), 1),
        {
            id: (round(x + shifts[part_of[id]][0], 1), round(y + shifts[part_of[id]][1], 1))
            for id, (x, y) in laid.nodes.items()
        },
        {id: packing.moved(path, *shifts[part_of[wanted.edges[id][0]]]) for id, path in laid.edges.items()},
    )


def spline(pos: str, left: float, top: float) -> tuple[str, tuple[float, float, float, float]]:
    """Returns Graphviz's curve as an SVG path, with the direction of its tip."""
    points = [tuple(float(n) for n in point.split(",")[-2:]) for point in pos.split() if point[0] not in "es"]
    flipped = [(round(x - left, 1), round(top - y, 1)) for x, y in points]
    curve = " ".join(f"{x} {y}" for x, y in flipped[1:])
    (x, y), (x2, y2) = flipped[-2] if flipped[-2] != flipped[-1] else flipped[0], flipped[-1]
    return f"M{flipped[0][0]} {flipped[0][1]}C{curve}", (x, y, x2, y2)


def curve_between(
    tail: tuple[float, float],
    head: tuple[float, float],
    size: tuple[float, float],
    head_size: tuple[float, float],
    above: bool,
) -> tuple[str, tuple[float, float, float, float]]:
    """Returns a curve from the right side of a node to the left side of another. A backward edge swings out below both nodes.
    An edge over many ranks passes `above` the nodes between."""
    x, y = tail[0] + size[0] / 2, tail[1]
    to_x, to_y = head[0] - head_size[0] / 2, head[1]
    if to_x > x and above:
        reach, high = min((to_x - x) / 4, 400), round(min(y, to_y) - min((to_x - x) / 40, BOW), 1)
        return f"M{x} {y}C{x + reach} {high} {to_x - reach} {high} {to_x} {to_y}", (to_x - reach, high, to_x, to_y)
    if to_x > x:
        reach = (to_x - x) / 2
        return f"M{x} {y}C{x + reach} {y} {to_x - reach} {to_y} {to_x} {to_y}", (to_x - reach, to_y, to_x, to_y)
    low = max(y, to_y) + 60
    return f"M{x} {y}C{x + 80} {low} {to_x - 80} {low} {to_x} {to_y}", (to_x - 80, low, to_x, to_y)


if __name__ == "__main__":
    sys.stdout.buffer.write(
        msgspec.json.encode(lay_out(msgspec.json.decode(sys.stdin.buffer.read(), type=LayoutRequest)))
    )
