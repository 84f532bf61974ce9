"""Forwarding, step by step: sql/functions/routers_advance.sql advances the routers of one source, and this module calls it.

A worker drains a source, and then continues with the dests' own routers. A reader of a dest first advances everything upstream
of the dest. So the reader sees every write that was acknowledged before its read (docs/routers.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from django.conf import settings

from store.database import prepared
from store.script import Script, Statement, run
from topics import wake
from topics.cache import CachedTopic

STEP = 10_000  # source seqs that one router forwards in one transaction

ADVANCE = "SELECT dest_id, dest_head, moved, routed, more FROM routers_advance(%s, %s, %s, %s, %s, %s)"

# All routers that lead into a topic, hop by hop. UNION ends the recursion in a cycle too. `behind`: a router of the hop has
# something to forward. OFFSET 0 and = ANY change no result: they keep a planner that expects many hops from reading all routers.
UPSTREAM = """
WITH RECURSIVE upstream AS (
    SELECT id, source_id FROM routers_router WHERE dest_id = %s
    UNION
    SELECT r.id, r.source_id FROM upstream u
     CROSS JOIN LATERAL (SELECT id, source_id FROM routers_router WHERE dest_id = u.source_id OFFSET 0) r),
hop AS MATERIALIZED (
    SELECT r.source_id, r.dest_id, bool_or(c.seq < head.head_seq AND router_due(r, %s)) AS behind, bool_or(r.cyclic) AS cyclic,
           count(*) OVER () = 1 AS lone
      FROM routers_router r
      JOIN topic_cursors c ON c.id = r.cursor_id JOIN topic_heads head ON head.topic_id = r.source_id
     WHERE r.id = ANY (ARRAY(SELECT id FROM upstream))
     GROUP BY r.source_id, r.dest_id)
"""
# This query WRITES, although it begins with SELECT: routers_advance inserts spans, and advances a dest's head and cursors, like
# ADVANCE and under the same locks. Most dests have one source, which has no routers into it. Their readers want a single round
# trip. So a lone hop that lags is advanced here, and `behind` then says whether more is left. With several hops the query writes
# nothing, because the farthest hop must be advanced first, each hop in its own transaction (catching_up).
LOOK_UPSTREAM_AND_ADVANCE_LONE_HOP = f"""{UPSTREAM}
SELECT hop.source_id, hop.dest_id, CASE WHEN lone THEN step.more IS TRUE ELSE behind END AS behind, cyclic,
       step.dest_head, step.moved, step.routed, step.more
  FROM hop LEFT JOIN LATERAL (
       SELECT * FROM routers_advance(hop.source_id, hop.dest_id, true, %s, %s, %s) WHERE lone AND behind OFFSET 0) step ON true
"""

# Sources with a router that lags and may run. Reads the cursors of all routers.
BEHIND = """
SELECT DISTINCT r.source_id
  FROM routers_router r JOIN topic_cursors c ON c.id = r.cursor_id JOIN topic_heads head ON head.topic_id = r.source_id
 WHERE c.seq < head.head_seq AND router_due(r, %(now)s)
"""
BEHIND_OF = BEHIND + " AND r.source_id = %(source)s"
# Reads the routers of the topics that were written in the last seconds, and of those whose routers lagged since
# (topics/upkeep/retention.py, GIVE_BACK). OFFSET 0 keeps the planner from reading all routers instead.
BEHIND_OF_UNSETTLED = """
SELECT DISTINCT r.source_id
  FROM unsettled_heads() head
 CROSS JOIN LATERAL (SELECT * FROM routers_router WHERE source_id = head.topic_id OFFSET 0) r
 CROSS JOIN LATERAL (SELECT seq FROM topic_cursors WHERE id = r.cursor_id OFFSET 0) c
 WHERE head.routed AND c.seq < head.head_seq AND router_due(r, %(now)s)
"""

# A blocked router pauses for at most 5 s (sql/functions/router_moved.sql). If a pause ends later, a clock that was ahead set it.
END_LONG_PAUSES = """
UPDATE routers_router SET retry_ts = 0
 WHERE id IN (SELECT id FROM routers_router WHERE state = 'blocked' AND retry_ts > %s::bigint + 5000
                 FOR NO KEY UPDATE SKIP LOCKED)
"""


class Moved(NamedTuple):
    """The effect of a step on a dest: its head, whether the head advanced, and whether the dest has routers of its own."""

    topic_id: int
    head_seq: int
    moved: bool
    routed: bool
    more: bool  # the router has not reached its source's head yet


Moves = dict[int, Moved]


class Hop(NamedTuple):
    """The routers from one source to one dest, upstream of a topic."""

    source_id: int
    dest_id: int
    behind: bool
    cyclic: bool
    moved: Moved  # by the query itself. If it advanced nothing, only the dest is set


def advance(source_id: int, now: int) -> list[Moved]:
    """Advances all routers of a source by one step, in one transaction. Skips routers that another process advances right now.

    Returns an empty list if there was nothing to do.
    """
    return run(advancing(source_id, now))


def advancing(source_id: int, now: int) -> Script[list[Moved]]:
    """Like advance(), as a script that a thread or an event loop can drive."""
    arguments = (source_id, None, False, STEP, now, settings.TOPICS_MAX_ROUTER_HOPS)
    rows = yield Statement(ADVANCE, arguments, turn=source_id)
    return [Moved(*row) for row in rows]


def step(waiting: deque[int], now: int) -> list[Moved]:
    """Advances the routers of the first waiting source. Appends the sources that then have something to forward to `waiting`.

    Returns the dests whose heads advanced.
    """
    source_id = waiting.popleft()
    moves = advance(source_id, now)
    # A source waits again until a step finds nothing to do. While this step held the routers, another worker that was told of an
    # append left the append to this one.
    onward = [source_id] if moves else []
    onward += [move.topic_id for move in moves if move.moved and move.routed]
    waiting.extend(topic_id for topic_id in dict.fromkeys(onward) if topic_id not in waiting)
    return [move for move in moves if move.moved]


def drain(source_id: int, clock: Callable[[], int]) -> Iterator[Moved]:
    """Advances a source's routers, then those of each dest, until all have caught up. Yields advanced dests, step by step."""
    waiting = deque([source_id])
    while waiting:
        yield from step(waiting, clock())


def behind(now: int, source_id: int | None = None) -> list[int]:
    """Returns sources with a lagging router, of all or only `source_id`. Lost messages and crashed workers leave such sources."""
    statement = BEHIND if source_id is None else BEHIND_OF
    return [row[0] for row in prepared(statement, {"now": now, "source": source_id})]


def behind_unsettled(now: int) -> list[int]:
    """Returns sources with a lagging router and records from after the last rest. A source whose router was created, resumed
    or set back since can be missing."""
    return [row[0] for row in prepared(BEHIND_OF_UNSETTLED, {"now": now})]


def end_long_pauses(now: int) -> None:
    """Ends pauses of routers that were set by a clock that was ahead."""
    prepared(END_LONG_PAUSES, [now])


def catching_up(topic_id: int, now: int) -> Script[Moves]:
    """Brings a topic up to date with everything upstream, the farthest hop first. Returns the dests whose heads advanced.

    Each statement runs in its own transaction. A transaction that held one hop's locks while waiting for the next hop could
    deadlock with appends. Event loops and threads share this script.
    """
    moves: Moves = {}
    limits = (STEP, now, settings.TOPICS_MAX_ROUTER_HOPS)
    # A record may travel around a cycle before it arrives here: once around per hop that it has left.
    for _ in range(settings.TOPICS_MAX_ROUTER_HOPS + 1):
        rows = yield Statement(LOOK_UPSTREAM_AND_ADVANCE_LONE_HOP, (topic_id, now, *limits), turn=topic_id)
        upstream = [Hop(source, dest, lags, cycle, Moved(dest, *step)) for source, dest, lags, cycle, *step in rows]
        moves |= by_dest(hop.moved for hop in upstream)
        stirred = {hop.source_id for hop in upstream if hop.behind}
        if not stirred:
            break
        edges = dict.fromkeys((hop.source_id, hop.dest_id) for hop in upstream)
        for source, dest in farthest_first(topic_id, list(edges)):
            more = source in stirred
            if more:
                stirred.add(dest)  # the dest advances, here or by a worker
            while more:
                rows = yield Statement(ADVANCE, (source, dest, True, *limits), turn=topic_id)
                steps = [Moved(*row) for row in rows]
                moves |= by_dest(steps)
                more = any(step.more for step in steps)
        if not any(hop.cyclic for hop in upstream):
            break
    return moves


def by_dest(steps: Iterable[Moved]) -> Moves:
    """Returns the steps that advanced the head of their dest, by dest."""
    return {step.topic_id: step for step in steps if step.moved}


def farthest_first(topic_id: int, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorts edges: except in cycles, the edges into a topic come before the edges out of the topic."""
    into: dict[int, list[int]] = {}
    for source, dest in edges:
        into.setdefault(dest, []).append(source)
    ordered: list[tuple[int, int]] = []
    seen = {topic_id}
    stack: list[tuple[int, Iterator[int]]] = [(topic_id, iter(into.get(topic_id, ())))]
    while stack:
        topic, sources = stack[-1]
        source = next(sources, 0)  # an id is above 0
        if not source:
            stack.pop()
            ordered += [(feeding, topic) for feeding in into.get(topic, ())]
        elif source not in seen:
            seen.add(source)
            stack.append((source, iter(into.get(source, ()))))
    return ordered


def before_read(topic: CachedTopic, now: int) -> Script[None]:
    """Brings a dest up to date before a read. The reader then sees all writes acknowledged before its call (topics/hooks.py)."""
    announce((yield from catching_up(topic.id, now)))


def announce(moves: Moves) -> None:
    """Wakes the readers that wait for these topics. If a topic has routers of its own, a worker advances them."""
    for move in moves.values():
        wake.announce(move.topic_id, move.head_seq, move.routed)
