"""Which router of a chain is the cause: the first that is broken, what it holds up before it, and what it starves behind it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from console.graph.network import Edge

STUCK = frozenset(("blocked", "stalled", "old"))
CAUSE, HELD_UP, STARVED = "cause", "held-up", "starved"


def is_stuck(edge: Edge) -> bool:
    return edge.look in STUCK or (edge.state == "paused" and edge.lag > 0)


def parts_played(edges: Sequence[Edge]) -> dict[int, str]:
    """Returns for routers near a stuck one, by id, CAUSE, HELD_UP or STARVED.

    A blocked router waits for room in its dest. If a router out of that dest is stuck, that one is the cause. Around a cycle of
    blocked routers there is no first one, so each of them is a cause.
    """
    out: defaultdict[int, list[Edge]] = defaultdict(list)
    into: defaultdict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        out[edge.source_id].append(edge)
        into[edge.dest_id].append(edge)
    stuck = {edge.id: edge for edge in edges if is_stuck(edge)}
    free = {
        id for id, edge in stuck.items() if edge.state != "blocked" or not any(e.id in stuck for e in out[edge.dest_id])
    }
    found = {id: HELD_UP if id not in free and reaches(edge, free, stuck, out) else CAUSE for id, edge in stuck.items()}
    for edge in starved(stuck, out, into):
        found[edge.id] = STARVED
    return found


def reaches(edge: Edge, free: Iterable[int], stuck: dict[int, Edge], out: dict[int, list[Edge]]) -> bool:
    """Returns whether the chain of stuck routers behind this one has an end."""
    seen, waiting = {edge.id}, deque([edge])
    while waiting:
        for following in out[waiting.popleft().dest_id]:
            if following.id in free:
                return True
            if following.id in stuck and following.id not in seen:
                seen.add(following.id)
                waiting.append(following)
    return False


def starved(stuck: dict[int, Edge], out: dict[int, list[Edge]], into: dict[int, list[Edge]]) -> list[Edge]:
    """Returns the routers that have nothing to forward, because every way into their source is stuck."""
    dry = set(stuck)
    found: dict[int, Edge] = {}
    waiting = deque(edge.dest_id for edge in stuck.values())
    while waiting:
        topic = waiting.popleft()
        if not all(edge.id in dry for edge in into[topic]):
            continue
        for edge in out[topic]:
            if edge.id not in dry and not edge.lag:
                dry.add(edge.id)
                found[edge.id] = edge
                waiting.append(edge.dest_id)
    return list(found.values())
