"""The graph as data: topics, the routers between them, and their readers, with current numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from base.units import amount, duration
from console.charts import short
from routers.lag import FROM, LAG, STALLED_MS, lag_of
from store.database import prepared

# Age of the oldest waiting record from which a router is late, and from which it is far behind.
LATE_MS, OLD_MS = 5_000, 60_000
MOST_TOPICS = 1_500  # topics in one picture; a larger graph is filtered first
MOST_ROUTERS = 2_000  # routers in one picture; with long names, each takes some 2 KB
MOST_ERROR = 300  # characters of a router's error
MOST_ALONE = 60  # topics without routers are shown if there are no more than this
MOST_WITH_READERS = 150
MOST_READERS = 4  # readers of one topic that are drawn separately

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
ENDS = "SELECT id, source_id, dest_id FROM routers_router"
TOPICS = """
SELECT t.id, t.name, h.head_seq, h.count, h.bytes, h.last_ts
  FROM topics_topic t JOIN topic_heads h ON h.topic_id = t.id WHERE t.id = ANY (%(ids)s::bigint[])
"""
BY_PREFIX = "SELECT id FROM topics_topic WHERE name ^@ %(prefix)s ORDER BY name LIMIT %(most)s"
BY_NAME = "SELECT id FROM topics_topic WHERE name = %(name)s"
READERS = """
SELECT c.topic_id, c.name, head.head_seq - c.seq
  FROM topic_cursors c JOIN topic_heads head USING (topic_id)
 WHERE c.kind <> 'router' AND c.topic_id = ANY (%(ids)s::bigint[]) ORDER BY c.topic_id, c.name
"""
# Each open session's topics. The positions of a session are [topic id, seq, …] by name.
WATCHERS = """
SELECT (spot.value ->> 0)::bigint AS topic_id, count(*)
  FROM (SELECT spots FROM topics_watchsession WHERE open LIMIT 2000) open, json_each(open.spots::json) spot
 WHERE (spot.value ->> 0)::bigint = ANY (%(ids)s::bigint[]) GROUP BY 1 ORDER BY 1
"""


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
        if self.state != "running":
            return self.state
        age = self.oldest_ms or 0
        return "old" if age >= OLD_MS else "late" if age >= LATE_MS else "fresh"

    @property
    def width(self) -> float:
        return round(1.4 + 1.5 * math.log10(1 + (self.rate or 0)), 1)

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


class Node(NamedTuple):
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


class Reader(NamedTuple):
    """A reader of a topic, or several readers that are drawn as one."""

    id: str
    topic_id: int
    name: str
    figure: str


class Wanted(NamedTuple):
    """The part of the graph to show: topics with a prefix, or `hops` hops around one topic."""

    prefix: str = ""
    focus: str = ""
    hops: int = 2


class Network(NamedTuple):
    """A part of the graph. `left_out` counts the topics that are missing, `routers_left_out` the routers between the shown
    topics."""

    topics: dict[int, Node]
    edges: list[Edge]
    readers: list[Reader]
    left_out: int
    routers_left_out: int


def network(wanted: Wanted, now: int) -> Network:
    """Returns this part of the graph with current numbers."""
    ends = prepared(ENDS, ())
    ids = chosen(wanted, ends)
    left_out = max(len(ids) - MOST_TOPICS, 0)
    kept = set(sorted(ids)[:MOST_TOPICS])
    router_ids = [id for id, source, dest in ends if source in kept and dest in kept]
    shown = sorted(router_ids)[:MOST_ROUTERS]
    edges = [edge(row) for row in prepared(ROUTERS, {"now": now, "stalled_ms": STALLED_MS, "ids": shown})]
    topics = {row[0]: Node(*row) for row in prepared(TOPICS, {"ids": sorted(kept)})}
    edges = [each for each in edges if each.source_id in topics and each.dest_id in topics]
    found = readers(sorted(topics)) if len(topics) <= MOST_WITH_READERS else []
    return Network(topics, sorted(edges, key=lambda each: each.id), found, left_out, len(router_ids) - len(shown))


def edge(row: Any) -> Edge:
    id, name, source, dest, state, error, guarantee, op, tag, cyclic, ordered, *numbers = row
    total, before, ms, lag, oldest, still = numbers
    lagging = lag_of(lag, oldest, still)
    state = "stalled" if lagging.stalled and state == "running" else state
    rate = max(total - before, 0) * 1000 / ms if ms else None
    match = None if op is None else tag + ("*" if op == "Glob" else "")
    return Edge(
        id,
        name,
        source,
        dest,
        state,
        error,
        guarantee,
        match,
        cyclic,
        ordered,
        rate,
        lagging.lag,
        lagging.oldest_unread_ms,
    )


def chosen(wanted: Wanted, ends: list[tuple[int, int, int]]) -> set[int]:
    """Returns the ids of the topics to show."""
    if wanted.focus:
        rows = prepared(BY_NAME, {"name": wanted.focus})
        return around({id for (id,) in rows}, ends, wanted.hops)
    routed = {id for _, source, dest in ends for id in (source, dest)}
    if wanted.prefix:
        named = {id for (id,) in prepared(BY_PREFIX, {"prefix": wanted.prefix, "most": MOST_TOPICS + 1})}
        return around(named & routed, ends, 1) | (named if len(named) <= MOST_ALONE else named & routed)
    alone = prepared(BY_PREFIX, {"prefix": "", "most": MOST_ALONE + 1})
    return routed | ({id for (id,) in alone} if len(alone) <= MOST_ALONE else set())


def around(start: set[int], ends: Iterable[tuple[int, int, int]], hops: int) -> set[int]:
    """Returns these topics and all topics at most `hops` routers away, in both directions."""
    beside: defaultdict[int, set[int]] = defaultdict(set)
    for _, source, dest in ends:
        beside[source].add(dest)
        beside[dest].add(source)
    found, edge = set(start), set(start)
    for _ in range(hops):
        edge = {other for id in edge for other in beside[id]} - found
        found |= edge
    return found


def readers(topic_ids: list[int]) -> list[Reader]:
    """Returns each cursor, or a single node if a topic has many cursors. Open watch sessions are always one node."""
    by_topic: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for topic_id, name, lag in prepared(READERS, {"ids": topic_ids}):
        by_topic[topic_id].append((name, lag))
    found = []
    for topic_id, cursors in by_topic.items():
        if len(cursors) > MOST_READERS:
            most = max(lag for _, lag in cursors)
            found.append(Reader(f"c{topic_id}", topic_id, f"{len(cursors)} cursors", f"up to {amount(most)} behind"))
        else:
            found += [
                Reader(f"c{topic_id}.{place}", topic_id, name, f"{amount(max(lag, 0))} behind")
                for place, (name, lag) in enumerate(cursors)
            ]
    for topic_id, count in prepared(WATCHERS, {"ids": topic_ids}):
        found.append(Reader(f"w{topic_id}", topic_id, f"{count} watching", "streams"))
    return found
