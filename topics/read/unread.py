"""Heads, names and first unread records of many topics at once, for metrics and pages about the whole server.

Each statement reads one table in the order of its index, so neighbours share a page. The callers join the answers. A join in SQL
would compare each row with each other, because PostgreSQL expects ten rows from a list that it does not know.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from store.script import Script, Statement

HEAD = "topic_id, head_seq, floor_seq, holes_seq, count, version"
HEADS = f"SELECT {HEAD} FROM topics_topichead WHERE topic_id = ANY (%s)"
NAMES = "SELECT id, name FROM topics_topic WHERE id = ANY (%s)"
FIRST = """
SELECT wanted.id, wanted.after, next.seq, next.ts FROM unnest(%s::bigint[], %s::bigint[]) wanted (id, after)
 CROSS JOIN LATERAL topic_next_unread(wanted.id, wanted.after) next
"""
MOST = 20_000  # remembered times, and remembered names, at 200 bytes each


class StoredHead(NamedTuple):
    """A head, as a scrape reads it."""

    id: int
    head_seq: int
    floor_seq: int
    holes_seq: int
    records: int
    version: int

    def shows_all_above(self, seq: int) -> bool:
        """Returns whether the topic shows each seq above this one, so the next seq is the first unread record."""
        return self.holes_seq <= seq or self.records == self.head_seq - self.floor_seq


class Unread(NamedTuple):
    """A record: its seq, and its $ts in ms."""

    seq: int
    ts: int


class Remembered:
    """What never changes, so that a process reads it once: the names of topics by id, and by id and seq the $ts of records that
    were once the first unread one. Each id and each seq is used once."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.times: dict[tuple[int, int], int] = {}

    def keep_names(self, names: dict[int, str]) -> None:
        if len(self.names) + len(names) > MOST:
            self.names.clear()
        self.names |= names

    def keep_time(self, topic_id: int, record: Unread) -> None:
        if len(self.times) >= MOST:
            self.times.clear()
        self.times[topic_id, record.seq] = record.ts


remembered = Remembered()


def heads_of(ids: Collection[int]) -> Script[dict[int, StoredHead]]:
    """Returns the heads of those topics that exist, by id."""
    return {row[0]: StoredHead(*row) for row in (yield Statement(HEADS, (sorted(ids),)))} if ids else {}


def names_of(ids: Collection[int]) -> Script[dict[int, str]]:
    """Returns the names of topics by id. A topic without a name here was deleted, and others can be."""
    found = {id: name for id in ids if (name := remembered.names.get(id)) is not None}
    if missing := sorted(set(ids) - found.keys()):
        read = dict((yield Statement(NAMES, (missing,))))
        remembered.keep_names(read)
        found |= read
    return found


def first_unread(places: Collection[tuple[StoredHead, int]]) -> Script[dict[tuple[int, int], Unread]]:
    """Returns the first record above each place, a head and a seq, by the topic's id and this seq. Leaves out places without one.

    A process reads a record once, if its topic has no hole there.
    """
    found: dict[tuple[int, int], Unread] = {}
    wanted: list[tuple[int, int]] = []
    for head, after in places:
        ts = remembered.times.get((head.id, after + 1)) if head.shows_all_above(after) else None
        if ts is not None:
            found[head.id, after] = Unread(after + 1, ts)
        elif after < head.head_seq:
            wanted.append((head.id, after))
    if wanted:
        ids, afters = zip(*sorted(set(wanted)), strict=True)
        for id, after, seq, ts in (yield Statement(FIRST, (list(ids), list(afters)))):
            if seq is not None:
                found[id, after] = Unread(seq, ts)
                remembered.keep_time(id, found[id, after])
    return found
