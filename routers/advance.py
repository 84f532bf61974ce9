"""Forwarding, step by step: sql/routers_advance.2.sql moves the routers of one source; here is who calls it, and for what.

A worker drains a source and goes on to the dests' own routers. A reader of a dest first advances what lies
upstream of it, so it sees every write that was acked before its read (docs/routers.md).
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

# All that leads into a topic, hop by hop; UNION ends it in a cycle too. `behind`: some router there has something to do.
# OFFSET 0 and = ANY say nothing new: they keep a planner that expects many hops from reading all routers.
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
      JOIN topics_cursor c ON c.id = r.cursor_id JOIN topics_topichead head ON head.topic_id = r.source_id
     WHERE r.id = ANY (ARRAY(SELECT id FROM upstream))
     GROUP BY r.source_id, r.dest_id)
"""
# A look upstream that WRITES, though it begins with SELECT: routers_advance inserts spans, and moves a dest's head and cursors,
# as ADVANCE does and under the same locks. Most dests have one source that is nobody's dest, and a reader of one wants a single
# round trip: so a lone hop that lags is advanced here, and `behind` then says whether more is left. Where there are several hops
# nothing is written, since they have to go farthest first, each in a transaction of its own (catching_up).
LOOK_UPSTREAM_AND_ADVANCE_LONE_HOP = f"""{UPSTREAM}
SELECT hop.source_id, hop.dest_id, CASE WHEN lone THEN step.more IS TRUE ELSE behind END AS behind, cyclic,
       step.dest_head, step.moved, step.routed, step.more
  FROM hop LEFT JOIN LATERAL (
       SELECT * FROM routers_advance(hop.source_id, hop.dest_id, true, %s, %s, %s) WHERE lone AND behind OFFSET 0) step ON true
"""

# Sources with a router that lags and may run: by the routers' cursors, a few thousand rows at the most.
BEHIND = """
SELECT DISTINCT r.source_id
  FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id JOIN topics_topichead head ON head.topic_id = r.source_id
 WHERE c.seq < head.head_seq AND router_due(r, %(now)s)
"""
BEHIND_OF = BEHIND + " AND r.source_id = %(source)s"

# A blocked router pauses for 5 s at the most (sql/router_moved.sql): a pause that ends later was begun by a clock that was ahead.
END_LONG_PAUSES = """
UPDATE routers_router SET retry_ts = 0
 WHERE id IN (SELECT id FROM routers_router WHERE state = 'blocked' AND retry_ts > %s::bigint + 5000
                 FOR NO KEY UPDATE SKIP LOCKED)
"""


class Moved(NamedTuple):
    """What a step did to a dest: its head, whether that moved, and whether routers lead on from it."""

    topic_id: int
    head_seq: int
    moved: bool
    routed: bool
    more: bool  # the router is not at its source's head yet


Moves = dict[int, Moved]


class Hop(NamedTuple):
    """Routers from a source to a dest, upstream of a topic."""

    source_id: int
    dest_id: int
    behind: bool
    cyclic: bool
    moved: Moved  # by the look itself; where it moved nothing, only the dest


def advance(source_id: int, now: int) -> list[Moved]:
    """One step of all routers of a source that nobody else moves right now, in one transaction. Empty: nothing to do."""
    return run(advancing(source_id, now))


def advancing(source_id: int, now: int) -> Script[list[Moved]]:
    """The same for whoever drives it, on a thread or in an event loop."""
    arguments = (source_id, None, False, STEP, now, settings.TOPICS_MAX_ROUTER_HOPS)
    rows = yield Statement(ADVANCE, arguments, turn=source_id)
    return [Moved(*row) for row in rows]


def step(waiting: deque[int], now: int) -> list[Moved]:
    """Advance the routers of the source that waits first; whoever has something to forward after that waits, too."""
    source_id = waiting.popleft()
    moves = advance(source_id, now)
    # A source waits again until a look finds nothing to do: who was told of an append while we held its routers left it to us.
    onward = [source_id] if moves else []
    onward += [move.topic_id for move in moves if move.moved and move.routed]
    waiting.extend(topic_id for topic_id in dict.fromkeys(onward) if topic_id not in waiting)
    return [move for move in moves if move.moved]


def drain(source_id: int, clock: Callable[[], int]) -> Iterator[Moved]:
    """Advance a source's routers, then those of each dest, until all have caught up. Yields what moved, step by step."""
    waiting = deque([source_id])
    while waiting:
        yield from step(waiting, clock())


def behind(now: int, source_id: int | None = None) -> list[int]:
    """Sources, of all or just this one, with a router that lags: what a lost message or a dead worker left."""
    statement = BEHIND if source_id is None else BEHIND_OF
    return [row[0] for row in prepared(statement, {"now": now, "source": source_id})]


def end_long_pauses(now: int) -> None:
    """Have no router rest until the time of a clock that was ahead."""
    prepared(END_LONG_PAUSES, [now])


def catching_up(topic_id: int, now: int) -> Script[Moves]:
    """The statements that bring a topic up to date with everything upstream of it, farthest first.

    Yields statements to run, each in a transaction of its own (holding the locks of one hop while waiting for the
    next could deadlock with appends), takes their rows, and returns what moved. So event loops and threads share it.
    """
    moves: Moves = {}
    limits = (STEP, now, settings.TOPICS_MAX_ROUTER_HOPS)
    # A record may travel a cycle before it is here: once around per hop it has left.
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
                stirred.add(dest)  # whether we move it, or a worker just did
            while more:
                rows = yield Statement(ADVANCE, (source, dest, True, *limits), turn=topic_id)
                steps = [Moved(*row) for row in rows]
                moves |= by_dest(steps)
                more = any(step.more for step in steps)
        if not any(hop.cyclic for hop in upstream):
            break
    return moves


def by_dest(steps: Iterable[Moved]) -> Moves:
    """Those that moved their dest."""
    return {step.topic_id: step for step in steps if step.moved}


def farthest_first(topic_id: int, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Edges ordered so that, but for cycles, what feeds a topic comes before what it feeds."""
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
    """Bring a dest up to date with everything upstream before it is read, so that a reader sees what was acked before it asked
    (topics/hooks.py)."""
    announce((yield from catching_up(topic.id, now)))


def announce(moves: Moves) -> None:
    """Tell who waits for these topics; a worker goes on where other routers lead on from them."""
    for move in moves.values():
        wake.announce(move.topic_id, move.head_seq, move.routed)
