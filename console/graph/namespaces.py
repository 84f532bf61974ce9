"""The graph by namespaces, for sites with more topics than one picture holds: each block is a common beginning of names."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import reverse

from base.units import amount, counted, duration
from console.graph.network import LOOKS, RouterEnds, in_words, look_of
from console.graph.picture import NetworkPicture, PictureEdge, PictureNode
from console.health.behind import Behind, behind
from console.history.charts import short
from console.templatetags.console import router_url, topic_url
from store.script import run
from topics.read.unread import names_of

MOST_BLOCKS = 60  # in one picture. All further namespaces are one block
MOST_BEHIND = 51  # routers in trouble that one look finds: one more than a page shows
# A name's beginning ends with the first of these. Names without any of them are told apart by what is before their number.
ENDS_WITH = re.compile(r"[.:/]"), re.compile(r"[-_]"), re.compile(r"\d")
REST = "…"


class NamedEnds(NamedTuple):
    """A router, and the names of its topics."""

    name: str
    source: str
    dest: str


def namespace_of(name: str, prefix: str) -> str:
    """Returns the beginning of a name, which is longer than the prefix if the name begins with it, or the name itself."""
    start = len(prefix) if name.startswith(prefix) else 0
    for pattern in ENDS_WITH:
        if (found := pattern.search(name, start)) and found.start() > start:
            return name[: found.start() if pattern is ENDS_WITH[-1] else found.end()]
    return name


class Namespaces(NamedTuple):
    """The blocks of a part of the graph, and the ways between and within them. `blocks`: the topics with routers in each.
    `troubled`: those of its routers that are furthest behind."""

    blocks: dict[str, set[str]]
    ways: dict[tuple[str, str], list[NamedEnds]]
    troubled: list[Behind]

    def picture(self) -> NetworkPicture:
        behind_by_name = {each.name: each for each in self.troubled}
        worst = {
            way: max((behind_by_name[e.name] for e in routers if e.name in behind_by_name), key=badness, default=None)
            for way, routers in self.ways.items()
        }
        nodes = [self.block(name, worst.get((name, name))) for name in self.blocks]
        edges = [
            self.way(source, dest, routers, worst[source, dest])
            for (source, dest), routers in self.ways.items()
            if source != dest
        ]
        return NetworkPicture(nodes, edges)

    def block(self, name: str, worst: Behind | None) -> PictureNode:
        topics, within = self.blocks[name], len(self.ways.get((name, name), ()))
        figure = in_words(len(topics), within)
        words = f"{name}: {figure}" + (f", the worst is {worst.name}: {told(worst)}" if worst else "")
        look = (
            "" if worst is None else "bad" if look_of(worst.state, worst.oldest_ms) in ("old", "blocked") else "unsure"
        )
        if topics == {name}:
            return PictureNode(id_of("n", name), name, figure, words, topic_url(name), "topic", look)
        url = reverse("admin:console_list_routers") if name == REST else f"?{urlencode({'prefix': name})}"
        return PictureNode(id_of("n", name), name, figure, words, url, "namespace", look)

    def way(self, source: str, dest: str, routers: list[NamedEnds], worst: Behind | None) -> PictureEdge:
        count = counted(len(routers), "router")
        url = reverse("admin:routers_router_changelist") + f"?{urlencode({'q': '' if source == REST else source})}"
        if worst or len(routers) == 1:
            url = router_url(worst.name if worst else routers[0].name)
        return PictureEdge(
            id_of("e", f"{source}\0{dest}"),
            id_of("n", source),
            id_of("n", dest),
            worst.name if worst else f"{count} from {source} to {dest}",
            f"{count} from {source} to {dest}" + (f", the worst is {worst.name}: {told(worst)}" if worst else ""),
            url,
            look_of(worst.state, worst.oldest_ms) if worst else "fresh",
            round(1.4 + math.log10(len(routers)), 1),
            count if len(routers) > 1 else "",
            f"{short(worst.lag)} behind" if worst else "",
        )


def id_of(kind: str, name: str) -> str:
    """Returns an id for the page."""
    return kind + hashlib.sha256(name.encode()).hexdigest()[:12]


def badness(router: Behind) -> tuple[int, int]:
    return LOOKS.index(look_of(router.state, router.oldest_ms)), router.lag


def told(router: Behind) -> str:
    """Returns how far a router is behind, and its state if it does not run."""
    waits = "" if router.oldest_ms is None else f" for {duration(router.oldest_ms)}"
    return f"{'' if router.state == 'running' else router.state + ', '}{amount(router.lag)} behind{waits}"


def namespaces(prefix: str, routers: Sequence[RouterEnds], now: int) -> Namespaces:
    """Returns the blocks of the topics with routers whose names begin with the prefix, and of the topics beside them."""
    names = run(names_of({id for each in routers for id in (each.source_id, each.dest_id)}))
    ends = [
        NamedEnds(each.name, names[each.source_id], names[each.dest_id])
        for each in routers
        if each.source_id in names and each.dest_id in names  # others are deleted meanwhile
    ]
    wanted = [each for each in ends if each.source.startswith(prefix) or each.dest.startswith(prefix)]
    of_part = {each.name for each in wanted}
    return grouped(prefix, wanted, [each for each in behind(now, MOST_BEHIND) if each.name in of_part])


def grouped(prefix: str, routers: Sequence[NamedEnds], troubled: list[Behind]) -> Namespaces:
    names = {name for each in routers for name in (each.source, each.dest)}
    block_of = {name: namespace_of(name, prefix) for name in names}
    sizes = Counter(block_of.values())
    if len(sizes) > MOST_BLOCKS:
        largest = {block for block, _ in sorted(sizes.items(), key=lambda each: (-each[1], each[0]))[: MOST_BLOCKS - 1]}
        block_of = {name: block if block in largest else REST for name, block in block_of.items()}
    blocks: dict[str, set[str]] = {block: set() for block in sorted(set(block_of.values()))}
    for name, block in block_of.items():
        blocks[block].add(name)
    ways: defaultdict[tuple[str, str], list[NamedEnds]] = defaultdict(list)
    for each in sorted(routers):
        ways[block_of[each.source], block_of[each.dest]].append(each)
    return Namespaces(blocks, dict(ways), troubled)
