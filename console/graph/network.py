"""The graph as data: topics and the routers between them, with current numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from base.names import begins
from base.units import amount, counted, duration
from console.history.charts import short
from routers.lag import FROM, LAG, STALLED_MS, lag_of
from store.database import prepared

# Age of the oldest waiting record from which a router is late, and from which it is far behind.
LATE_MS, OLD_MS = 5_000, 60_000
MOST_TOPICS = 100  # topics in one picture: with more, their names are too small to read
MOST_ROUTERS = 150  # routers in one picture; with long names, each takes some 2 KB
MOST_NAMED = 500  # names with a prefix that one look reads
MOST_ERROR = 300  # characters of a router's error
MOST_ALONE = 60  # topics without routers are shown if there are no more than this

# Compares with a sample that is at least half a minute old. The rate is the number of records forwarded since.
ROUTERS = f"""
SELECT r.id, r.name, r.source_id, r.dest_id, r.state, r.last_error, r.guarantee, r.filter_op, r.filter_tag, r.cyclic, r.ordered,
       c.forwarded_total, before.head_seq, %(now)s::bigint - before.ts, {LAG}
{FROM}
  LEFT JOIN LATERAL (SELECT ts, head_seq FROM console_sample
                      WHERE kind = 'router' AND object_id = r.id AND ts <= %(now)s::bigint - 30000
                      ORDER BY ts DESC LIMIT 1) before ON true
 WHERE %(ids)s::bigint[] IS NULL OR r.id = ANY (%(ids)s)
"""
ENDS = "SELECT id, name, source_id, dest_id FROM routers_router"
TOPICS = """
SELECT t.id, t.name, h.head_seq, h.count, h.bytes, h.last_ts
  FROM topics_topic t JOIN topic_heads h ON h.topic_id = t.id WHERE t.id = ANY (%(ids)s::bigint[])
"""
BY_PREFIX = f"SELECT id FROM topics_topic WHERE {begins('name')} ORDER BY name LIMIT %(most)s"
BY_NAME = "SELECT id FROM topics_topic WHERE name = %(name)s"


LOOKS = ("fresh", "paused", "late", "stalled", "old", "blocked")  # the worst last


def look_of(state: str, oldest_ms: int | None) -> str:
    """Returns the state of a router that stands still, or else the age class of its oldest waiting record."""
    if state != "running":
        return state
    age = oldest_ms or 0
    return "old" if age >= OLD_MS else "late" if age >= LATE_MS else "fresh"


def flow_width(rate: float | None) -> float:
    """Returns the width of a flow, in points."""
    return round(1.4 + 1.5 * math.log10(1 + (rate or 0)), 1)


def flow_speed(rate: float | None) -> float:
    """Returns the speed of the dashes of a flow, in points a second."""
    return round(12 + 24 * math.log10(1 + rate), 1) if rate else 0.0


class Edge(NamedTuple):
    """A router in the graph."""

    id: int
    name: str
    source_id: int
    dest_id: int
    state: str
    error: str | None
    guarantee: str
    match: str | None
    cyclic: bool
    ordered: bool
    rate: float | None
    lag: int
    oldest_ms: int | None

    @property
    def look(self) -> str:
        """Returns the state if the router stands still. Otherwise returns the age class of its oldest waiting record."""
        return look_of(self.state, self.oldest_ms)

    @property
    def width(self) -> float:
        return flow_width(self.rate)

    @property
    def speed(self) -> float:
        return flow_speed(self.rate) if self.state == "running" else 0.0

    @property
    def words(self) -> str:
        """Returns the tooltip."""
        said = [f"{self.name}: {self.guarantee}"]
        if self.match is not None:
            said.append(f"only tag {self.match}")
        if self.cyclic:
            said.append("on a cycle")
        if self.ordered:
            said.append("ordered: the dest gets the records of all its sources in the order of their writes")
        said.append("rate not known yet" if self.rate is None else f"{self.rate:,.1f} records/s")
        waits = "" if self.oldest_ms is None else f", the oldest record waits for {duration(self.oldest_ms)}"
        said.append(f"{amount(self.lag)} behind{waits}" if self.lag else "caught up")
        if self.state != "running":
            error = self.error or ""
            cut = error if len(error) <= MOST_ERROR else f"{error[:MOST_ERROR]}… (see the router's page)"
            said.append(self.state + (f": {cut}" if cut else ""))
        return ", ".join(said)


class TopicNode(NamedTuple):
    """A topic in the graph."""

    id: int
    name: str
    head_seq: int
    records: int
    bytes: int
    last_ts: int

    @property
    def figure(self) -> str:
        return f"head {short(self.head_seq) if self.head_seq >= 10_000 else amount(self.head_seq)}"

    @property
    def words(self) -> str:
        return f"{self.name}: head {amount(self.head_seq)}, {amount(self.records)} records"


class GraphPart(NamedTuple):
    """The part of the graph to show: topics with a prefix, or `hops` hops around one topic. `open`: the source whose fan-out is
    not folded. `at`: a past minute (replay.py), or 0 for now."""

    prefix: str = ""
    focus: str = ""
    hops: int = 2
    open: str = ""
    at: int = 0


class RouterEnds(NamedTuple):
    """A router, and the ids of its topics."""

    id: int
    name: str
    source_id: int
    dest_id: int


class Survey(NamedTuple):
    """The topics of a part of the graph, each with its hops from where the look starts, and the routers between them.

    `routers`: all of the site.
    """

    routers: list[RouterEnds]
    near: dict[int, int]
    inside: list[RouterEnds]
    names_left_out: bool

    @property
    def fits(self) -> bool:
        """Returns whether one picture shows all of it."""
        return len(self.near) <= MOST_TOPICS and len(self.inside) <= MOST_ROUTERS


class Network(NamedTuple):
    """A part of the graph. `left_out` counts the topics that are missing, `routers_left_out` the routers. `names_left_out`: more
    names have the prefix than one look reads."""

    topics: dict[int, TopicNode]
    edges: list[Edge]
    left_out: int
    routers_left_out: int
    names_left_out: bool

    @property
    def shown_words(self) -> str:
        return in_words(len(self.topics), len(self.edges))

    @property
    def left_out_words(self) -> str:
        return in_words(self.left_out, self.routers_left_out)


def in_words(topics: int, routers: int) -> str:
    """Returns the numbers that are not 0."""
    return " and ".join(counted(n, noun) for n, noun in ((topics, "topic"), (routers, "router")) if n)


def survey(wanted: GraphPart) -> Survey:
    """Finds the topics and routers of this part of the graph, however many there are."""
    ends = [RouterEnds(*row) for row in prepared(ENDS, ())]
    near, names_left_out = chosen(wanted, ends)
    inside = [each for each in ends if each.source_id in near and each.dest_id in near]
    return Survey(ends, near, inside, names_left_out)


def network(seen: Survey, now: int) -> Network:
    """Returns what one picture shows of a survey, with current numbers."""
    kept, router_ids = fitting(seen.near, seen.inside)
    edges = [edge(row) for row in prepared(ROUTERS, {"now": now, "stalled_ms": STALLED_MS, "ids": router_ids})]
    topics = {row[0]: TopicNode(*row) for row in prepared(TOPICS, {"ids": kept})}
    edges = [each for each in edges if each.source_id in topics and each.dest_id in topics]
    edges.sort(key=lambda each: each.id)
    return Network(topics, edges, len(seen.near) - len(kept), len(seen.inside) - len(router_ids), seen.names_left_out)


def fitting(near: dict[int, int], ends: Sequence[RouterEnds]) -> tuple[list[int], list[int]]:
    """Returns the ids of the topics and routers that one picture shows, the nearest ones. `near`: hops by topic."""
    kept: dict[int, None] = {}
    router_ids: list[int] = []
    nearest = sorted(ends, key=lambda each: (max(near[each.source_id], near[each.dest_id]), each.id))
    for id, _, source, dest in nearest:
        more = {source, dest} - kept.keys()
        if len(router_ids) < MOST_ROUTERS and len(kept) + len(more) <= MOST_TOPICS:
            kept.update(dict.fromkeys((source, dest)))
            router_ids.append(id)
    alone = sorted(near.keys() - kept.keys(), key=lambda id: (near[id], id))
    return sorted([*kept, *alone[: MOST_TOPICS - len(kept)]]), sorted(router_ids)


def edge(row: Any) -> Edge:
    id, name, source, dest, state, error, guarantee, op, tag, cyclic, ordered, total, before, ms, *numbers = row
    lag, oldest_ms, _ = lagging = lag_of(*numbers)
    state = lagging.shown(state)
    rate = max(total - before, 0) * 1000 / ms if ms else None
    match = None if op is None else tag + ("*" if op == "Glob" else "")
    return Edge(id, name, source, dest, state, error, guarantee, match, cyclic, ordered, rate, lag, oldest_ms)


def chosen(wanted: GraphPart, ends: Sequence[RouterEnds]) -> tuple[dict[int, int], bool]:
    """Returns the topics to show, each with its hops from where the look starts, and whether it left out names."""
    if wanted.focus:
        rows = prepared(BY_NAME, {"name": wanted.focus})
        return around([id for (id,) in rows], ends, wanted.hops), False
    routed = dict.fromkeys((id for _, _, source, dest in ends for id in (source, dest)), 0)
    if wanted.prefix:
        rows = prepared(BY_PREFIX, {"prefix": wanted.prefix, "most": MOST_NAMED + 1})
        named = [id for (id,) in rows[:MOST_NAMED]]
        start = named if len(named) <= MOST_ALONE else [id for id in named if id in routed]
        return around(start, ends, 1), len(rows) > MOST_NAMED
    alone = prepared(BY_PREFIX, {"prefix": "", "most": MOST_ALONE + 1})
    return routed | (dict.fromkeys((id for (id,) in alone), 0) if len(alone) <= MOST_ALONE else {}), False


def around(start: Iterable[int], ends: Iterable[RouterEnds], hops: int) -> dict[int, int]:
    """Returns these topics and all topics at most `hops` routers away, in both directions, with the hops of each."""
    beside: defaultdict[int, list[int]] = defaultdict(list)
    for _, _, source, dest in ends:
        beside[source].append(dest)
        beside[dest].append(source)
    found = dict.fromkeys(start, 0)
    edge = list(found)
    for hop in range(1, hops + 1):
        edge = [other for other in dict.fromkeys(other for id in edge for other in beside[id]) if other not in found]
        found.update(dict.fromkeys(edge, hop))
    return found
