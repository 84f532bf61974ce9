"""Fan-outs of the graph: if many routers lead from a topic to topics that nothing else touches, they are drawn as one."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from base.units import counted, duration, first
from console.graph.network import LOOKS, Edge, TopicNode, flow_speed, flow_width
from console.graph.picture import PictureEdge, PictureNode
from console.history.charts import short

LEAST = 5  # routers of a fan-out that is folded
MOST_NAMED = 20  # names in the words of a folded fan-out


class Fan(NamedTuple):
    """The routers of a fan-out, and their dests. It has the look of its worst router."""

    source: TopicNode
    edges: list[Edge]
    dests: list[TopicNode]

    @property
    def worst(self) -> Edge:
        return max(self.edges, key=lambda edge: (LOOKS.index(edge.look), edge.lag))

    def drawn(self, url: str, role: str) -> tuple[PictureNode, PictureEdge]:
        """Returns the node of all dests, and the edge to it. `url`: of the picture that shows each of them."""
        names, worst = sorted(dest.name for dest in self.dests), self.worst
        alike = os.path.commonprefix(names)  # noqa: RUF071 (names are no paths)
        routers = counted(len(self.edges), "router")
        dest = next(each.name for each in self.dests if each.id == worst.dest_id)
        waits = "" if worst.oldest_ms is None else f", {duration(worst.oldest_ms)}"
        figure = (
            f"worst {dest.removeprefix(alike) or dest}: {short(worst.lag)} behind{waits}" if worst.lag else "caught up"
        )
        node = PictureNode(
            f"fn{self.source.id}", f"{alike}*, {routers}", figure, f"{alike}*: {first(names, MOST_NAMED)}", url, "fan"
        )
        rate = sum(edge.rate or 0 for edge in self.edges)
        edge = PictureEdge(
            f"f{self.source.id}",
            f"n{self.source.id}",
            node.id,
            f"{routers} from {self.source.name}",
            f"{routers} from {self.source.name}. The worst is {worst.words}",
            url,
            f"{worst.look} {role}".strip(),
            flow_width(rate),
            speed=flow_speed(rate),
        )
        return node, edge


def fans(topics: Mapping[int, TopicNode], edges: Sequence[Edge], touched: Collection[int], opened: str) -> list[Fan]:
    """Returns the fan-outs to fold, except that of the topic `opened`. `touched`: topics that something else hangs on.

    A router that stands still is drawn by itself, with its name.
    """
    into = Counter(edge.dest_id for edge in edges)
    sources = {edge.source_id for edge in edges}
    by_source: defaultdict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        is_leaf = into[edge.dest_id] == 1 and edge.dest_id not in sources and edge.dest_id not in touched
        if is_leaf and edge.state == "running":
            by_source[edge.source_id].append(edge)
    return [
        Fan(topics[source], alike, [topics[edge.dest_id] for edge in alike])
        for source, alike in by_source.items()
        if len(alike) >= LEAST and topics[source].name != opened
    ]
