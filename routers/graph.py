"""The graph of routers: forbids cycles by default, and finds the routers on cycles (docs/routers.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from base.errors import RouterCycle
from store.script import Script, Statement

Edge = tuple[int, int]  # source id, dest id

NOBODY: Mapping[int, bool] = {}

# Changes of the graph run one at a time. Otherwise two PUTs could each add half of a cycle, and both find no cycle.
LOCK_GRAPH = "SELECT pg_advisory_xact_lock(7002)"
# The routers that records of a topic reach. Walks by the index on source, so it reads the routers behind the topic alone.
BEHIND = """
WITH RECURSIVE reached (topic_id) AS (
    SELECT %s::bigint
     UNION
    SELECT next.dest_id FROM reached
     CROSS JOIN LATERAL (SELECT dest_id FROM routers_router WHERE source_id = reached.topic_id OFFSET 0) next)
SELECT next.source_id, next.dest_id FROM reached
 CROSS JOIN LATERAL (SELECT source_id, dest_id FROM routers_router WHERE source_id = reached.topic_id OFFSET 0) next
"""
NAMES = "SELECT id, name FROM topics_topic WHERE id = ANY (%s)"
MEMBERS = """
SELECT id, cursor_id, source_id, dest_id, allow_cycle, cyclic FROM routers_router WHERE NOT id = ANY (%s::bigint[]) ORDER BY id
"""


class Member(NamedTuple):
    """A router as an edge of the graph."""

    id: int
    cursor_id: int
    source_id: int
    dest_id: int
    allow_cycle: bool
    cyclic: bool


def lock_graph() -> Script[None]:
    """Locks the graph against other changes until this transaction ends. Take this lock before any other lock."""
    yield Statement(LOCK_GRAPH)


def path(start: int, end: int, edges: Iterable[Edge]) -> list[int] | None:
    """Returns the shortest path from start to end, both included, or None if no path exists."""
    after: dict[int, list[int]] = {}
    for source, dest in edges:
        after.setdefault(source, []).append(dest)
    came_from: dict[int, int | None] = {start: None}
    ring = [start]
    while ring and end not in came_from:
        reached = [(here, there) for here in ring for there in after.get(here, ())]
        ring = []
        for here, there in reached:
            if there not in came_from:
                came_from[there] = here
                ring.append(there)
    if end not in came_from:
        return None
    way: list[int] = []
    step: int | None = end
    while step is not None:
        way.append(step)
        step = came_from[step]
    return way[::-1]


def check_no_cycle(source_id: int, dest_id: int) -> Script[None]:
    """Raises RouterCycle, with the cycle's path, if dest already leads to source. The caller holds the graph's lock."""
    edges = yield Statement(BEHIND, (dest_id,))
    way = path(dest_id, source_id, edges)
    if way is None:
        return
    called = dict((yield Statement(NAMES, (way,))))
    raise RouterCycle.of(cycle=[called[source_id], *(called[id] for id in way)])


def on_cycles(edges: Iterable[Edge]) -> set[Edge]:
    """Returns the edges that are on a cycle: their ends are in the same strongly connected component."""
    component = components(edges := list(edges))
    return {(source, dest) for source, dest in edges if component[source] == component[dest]}


def components(edges: Iterable[Edge]) -> dict[int, int]:
    """Returns the strongly connected component of each topic, named by one of its topics (Kosaraju, without recursion)."""
    after: dict[int, list[int]] = {}
    before: dict[int, list[int]] = {}
    for source, dest in edges:
        after.setdefault(source, []).append(dest)
        after.setdefault(dest, [])
        before.setdefault(dest, []).append(source)
    finished: list[int] = []
    seen: set[int] = set()
    for start in after:
        stack = [(start, False)]
        while stack:
            topic, done = stack.pop()
            if done:
                finished.append(topic)
            elif topic not in seen:
                seen.add(topic)
                stack.append((topic, True))
                stack.extend((there, False) for there in after[topic])
    component: dict[int, int] = {}
    for root in reversed(finished):
        ring = [root] if root not in component else []
        while ring:
            topic = ring.pop()
            if topic not in component:
                component[topic] = root
                ring.extend(before.get(topic, ()))
    return component


def stale(gone: Iterable[int] = (), allows: Mapping[int, bool] = NOBODY) -> Script[list[Member]]:
    """Returns the routers whose `cyclic` has to be flipped.

    `gone`: the routers about to be deleted. `allows`: new values of `allow_cycle` by router. The caller holds the graph's lock.
    """
    rows = yield Statement(MEMBERS, (list(gone),))
    found = [Member(*row) for row in rows]
    members = [each._replace(allow_cycle=allows.get(each.id, each.allow_cycle)) for each in found]
    cycles = on_cycles((each.source_id, each.dest_id) for each in members)
    return [each for each in members if each.cyclic != (each.allow_cycle or (each.source_id, each.dest_id) in cycles)]
