"""The figures of many queues at once: the largest, those whose jobs wait, and a page of all queues by name (docs/queues.md).

The statements read the rows of queues, and neither those of other topics nor jobs. A queue at rest costs a share of a page. For a
queue whose workers hold jobs, queue_counts probes the leases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from store.script import Script, Statement
from topics.read.unread import HEAD, StoredHead, first_unread, heads_of

# By the index on queues. The heads are not joined: see topics/read/unread.py.
LARGEST = f"""
SELECT {HEAD} FROM topic_heads
 WHERE topic_id = ANY (ARRAY(SELECT id FROM topics_topic
                              WHERE type = 'queue' AND (%(prefixes)s::text[] IS NULL OR name ^@ ANY (%(prefixes)s))))
 ORDER BY count DESC, topic_id LIMIT %(most)s
"""
NEXT = "SELECT id FROM topics_topic WHERE type = 'queue' AND name > %(after)s ORDER BY name LIMIT %(most)s"
FOLLOWING = """
SELECT name FROM topics_topic WHERE type = 'queue' AND name > %(after)s AND name < %(upto)s ORDER BY name LIMIT %(most)s
"""
# The last queue of a page.
LAST = (
    "SELECT name FROM topics_topic WHERE type = 'queue' AND name > %(after)s ORDER BY name OFFSET %(most)s - 1 LIMIT 1"
)
# Looks up each name of a list, because `= ANY (…)` can read every queue.
KNOWN = """
SELECT t.id FROM unnest(%s::text[]) known (name)
 CROSS JOIN LATERAL (SELECT id, type FROM topics_topic WHERE name = known.name LIMIT 1) t WHERE t.type = 'queue'
"""
CONFIGS = "SELECT id, name, ttl_ms, dead_letter FROM topics_topic WHERE id = ANY (%s)"
CLAIMED = "SELECT topic_id, next_seq, in_flight, delayed, swept_ts FROM queues_queue WHERE topic_id = ANY (%s)"
MOVED = "SELECT topic_id, jobs FROM queues_moved WHERE topic_id = ANY (%s)"
IDS = """
SELECT t.id, t.name FROM unnest(%s::text[]) known (name)
 CROSS JOIN LATERAL (SELECT id, name FROM topics_topic WHERE name = known.name LIMIT 1) t
"""
# LIMIT 1 makes the planner look up each row.
COUNTED = """
SELECT t.id, jobs.ready, jobs.oldest_ready_ms, jobs.in_flight, jobs.delayed
  FROM unnest(%(ids)s::bigint[]) wanted (id)
 CROSS JOIN LATERAL (SELECT id, ttl_ms FROM topics_topic WHERE id = wanted.id LIMIT 1) t
 CROSS JOIN LATERAL (SELECT version FROM topic_heads WHERE topic_id = t.id LIMIT 1) h
 CROSS JOIN LATERAL queue_counts(t.id, h.version, %(at)s::bigint, CASE WHEN t.ttl_ms > 0 THEN %(now)s::bigint - t.ttl_ms END) jobs
"""
# The dead letters that wait in the topics of queues. Several queues can share a topic.
LETTERS = """
SELECT q.dead_letter, q.name, q.queues, h.count
  FROM (SELECT dead_letter, min(name) AS name, count(*) AS queues FROM topics_topic
         WHERE type = 'queue' AND dead_letter IS NOT NULL GROUP BY dead_letter) q
 CROSS JOIN LATERAL (SELECT count FROM topic_heads
                      WHERE topic_id = (SELECT id FROM topics_topic WHERE name = q.dead_letter) LIMIT 1) h
 WHERE h.count > 0
 ORDER BY h.count DESC, q.dead_letter LIMIT %(most)s
"""


class QueueFigures(NamedTuple):
    """The figures of a queue. `dead_lettered`: all jobs that it ever moved to `dead_letter`. `letters`: the records there now.
    `swept_ts`: of the last call on its jobs, or None before the first claim."""

    id: int
    name: str
    ready: int
    oldest_ready_ms: int | None
    in_flight: int
    delayed: int
    dead_lettered: int
    dead_letter: str | None
    letters: int
    swept_ts: int | None


class DeadLetters(NamedTuple):
    """A topic with dead letters. `queue`: the first of its `queues` queues by name."""

    topic: str
    queue: str
    queues: int
    letters: int


class ClaimedQueue(NamedTuple):
    """The row of a queue (queues/sql/tables/queues_queue.sql). Before the first claim a queue has none, which is the default."""

    next_seq: int = 0
    in_flight: int = 0
    delayed: int = 0
    swept_ts: int | None = None


class JobFigures(NamedTuple):
    """The jobs of a queue, as queue_counts tells them."""

    ready: int
    oldest_ready_ms: int | None
    in_flight: int
    delayed: int


def largest(
    most: int, now: int, prefixes: Sequence[str] | None = None, at: int | None = None
) -> Script[list[QueueFigures]]:
    """Returns the queues with the most jobs that are not done, at most `most`: those whose jobs wait longest first.

    `at`: as in a claim."""
    rows = yield Statement(LARGEST, {"most": most, "prefixes": prefixes})
    return longest_first((yield from figures_of([StoredHead(*row) for row in rows], now, at)))


def named(names: Sequence[str], now: int) -> Script[list[QueueFigures]]:
    """Returns those of these topics that are queues."""
    heads = yield from heads_of([id for (id,) in (yield Statement(KNOWN, (list(names),)))])
    return (yield from figures_of(heads.values(), now))


def following(after: str, upto: str, most: int) -> Script[list[str]]:
    """Returns the names of the next queues, which are below `upto`."""
    return [name for (name,) in (yield Statement(FOLLOWING, {"after": after, "upto": upto, "most": most}))]


def longest_first(figures: Iterable[QueueFigures]) -> list[QueueFigures]:
    return sorted(figures, key=lambda each: (each.oldest_ready_ms is None, -(each.oldest_ready_ms or 0), each.name))


def figures_of(heads: Collection[StoredHead], now: int, at: int | None = None) -> Script[list[QueueFigures]]:
    """Returns the figures of queues. It leaves out those that are deleted meanwhile."""
    ids = sorted(head.id for head in heads)
    if not ids:
        return []
    configs = yield Statement(CONFIGS, (ids,))
    claimed = {id: ClaimedQueue(*row) for id, *row in (yield Statement(CLAIMED, (ids,)))}
    moved = dict((yield Statement(MOVED, (ids,))))
    letters = yield from count_letters({dead_letter for *_, dead_letter in configs if dead_letter is not None})
    jobs = yield from jobs_of(heads, claimed, {id: ttl_ms for id, _, ttl_ms, _ in configs}, now, at)
    return [
        QueueFigures(
            id,
            name,
            *jobs[id],
            moved.get(id, 0),
            dead_letter,
            letters.get(dead_letter, 0),
            claimed.get(id, ClaimedQueue()).swept_ts,
        )
        for id, name, _, dead_letter in configs
        if id in jobs
    ]


def count_letters(topics: Collection[str]) -> Script[dict[str, int]]:
    """Returns the number of records of each of these topics."""
    if not topics:
        return {}
    ids = dict((yield Statement(IDS, (sorted(topics),))))
    heads = yield from heads_of(ids)
    return {ids[head.id]: head.records for head in heads.values()}


def jobs_of(
    heads: Collection[StoredHead],
    claimed: Mapping[int, ClaimedQueue],
    ttls: Mapping[int, int],
    now: int,
    at: int | None,
) -> Script[dict[int, JobFigures]]:
    """Returns the jobs of queues by id. A queue is at rest if all its live records are above its last claimed job, and the first
    of them has not expired. Then no lease changes its figures."""
    places = [(head, max(claimed.get(head.id, ClaimedQueue()).next_seq, head.floor_seq)) for head in heads]
    resting = [
        (head, after)
        for head, after in places
        if head.records == max(head.head_seq - after, 0)
        and head.shows_all_above(after)
        and not claimed.get(head.id, ClaimedQueue()).in_flight
        and not claimed.get(head.id, ClaimedQueue()).delayed
    ]
    unread = yield from first_unread(resting)
    jobs: dict[int, JobFigures] = {}
    for head, after in resting:
        first, ttl_ms = unread.get((head.id, after)), ttls.get(head.id, 0)
        if not head.records:
            jobs[head.id] = JobFigures(0, None, 0, 0)
        elif first is not None and not (ttl_ms and first.ts < now - ttl_ms):
            jobs[head.id] = JobFigures(head.records, max(now - first.ts, 0), 0, 0)
    rest = sorted(head.id for head, _ in places if head.id not in jobs)
    if rest:
        for id, *counted in (yield Statement(COUNTED, {"ids": rest, "now": now, "at": at})):
            jobs[id] = JobFigures(*counted)
    return jobs


class WaitingQueues:
    """The queues with a job that has been ready for longer than `ready_ms`, of all queues.

    A look judges the next `most` queues by name, those that an earlier look found, and those in `told`. So it reads few pages,
    however many queues there are, and a site with at most `most` queues is judged as a whole by each look.
    """

    def __init__(self, ready_ms: int, most: int) -> None:
        self.ready_ms, self.most = ready_ms, most
        self.after = ""  # the last queue that was judged in this round
        self.known: list[str] = []
        self.told: Collection[str] = ()  # queues that a look leaves out only if their jobs do not wait
        self.is_whole = False  # every queue was judged at least once

    def look(self, now: int) -> Script[list[QueueFigures]]:
        """Returns at most `most` of the queues that are known now, and those in `told`: those whose jobs wait longest first."""
        place = {"after": self.after, "most": self.most}
        last = yield Statement(LAST, place)
        ids = [*(yield Statement(NEXT, place)), *(yield Statement(KNOWN, ([*self.known, *self.told],)))]
        heads = yield from heads_of({id for (id,) in ids})
        figures = yield from figures_of([head for head in heads.values() if head.records], now)
        waiting = [each for each in figures if (each.oldest_ready_ms or 0) > self.ready_ms]
        ranked = enumerate(longest_first(waiting))
        found = [each for rank, each in ranked if rank < self.most or each.name in self.told]
        self.after, self.known = (last[0][0] if last else ""), [each.name for each in found]
        self.is_whole = self.is_whole or not last
        return found

    def round(self, now: int) -> Script[list[QueueFigures]]:
        """Judges every queue."""
        found = yield from self.look(now)
        while self.after:
            found = yield from self.look(now)
        return found


def dead_letters(most: int) -> Script[list[DeadLetters]]:
    """Returns the topics with the most dead letters."""
    return [DeadLetters(*row) for row in (yield Statement(LETTERS, {"most": most}))]
