"""What a topic holds when somebody begins to read it, and how that is divided into parts of equally many records.

All of it is read by anybody who may SELECT as the role `topics_analyst` does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg

from base.errors import TopicNotFound

# The floor is that of readers: what is over its time is below it.
EXTENT = """
SELECT t.id, t.name, h.head_seq, s.earliest_seq - 1, h.ragged_seq, h.recreated_seq
  FROM topics_topic t
  JOIN topics_topichead h ON h.topic_id = t.id
 CROSS JOIN LATERAL topic_stat(h, CASE WHEN t.ttl_ms > 0
                                       THEN (extract(epoch FROM statement_timestamp()) * 1000)::bigint - t.ttl_ms END) s
"""
ONE = f"{EXTENT} WHERE t.name = %s"
# A range of the unique index on the name; no character of a name sorts behind "~".
BY_PREFIX = f"{EXTENT} WHERE t.name >= %(prefix)s AND t.name < %(prefix)s || '~' ORDER BY t.name"
RECORDS = "SELECT records, bytes FROM topic_extent(%s, %s, %s, %s)"
SEQ_AT = "SELECT topic_seq_at(%s, %s, %s, %s)"


FETCH_BYTES = 8 * 1024 * 1024
LEAST_FETCH, MOST_FETCH = 20, 10_000  # records


class Extent(NamedTuple):
    """A topic as of one moment. Whoever reads its seqs above `floor` and up to `head` reads a prefix of what it ever held.

    `recreated`: the last head of the topics that had the name before; its own first seq is above it.
    """

    id: int
    name: str
    head: int
    floor: int
    ragged: int
    recreated: int = 0


class Part(NamedTuple):
    """Seqs first..last, which hold so many records; `mean_bytes` is how large those of the whole range are on average."""

    first: int
    last: int
    records: int
    mean_bytes: int = 0

    @property
    def fetch(self) -> int:
        """How many records to ask for at once, so that these fit into memory, however large they are."""
        return max(LEAST_FETCH, min(MOST_FETCH, FETCH_BYTES // max(self.mean_bytes, 1)))


def extent(connection: psycopg.Connection[Any], topic: str) -> Extent:
    """The topic of that name as it is now. Raises TopicNotFound."""
    row = connection.execute(ONE, [topic]).fetchone()
    if row is None:
        raise TopicNotFound(f"there is no topic {topic!r}", topic=topic)
    return Extent(*row)


def extents(connection: psycopg.Connection[Any], prefix: str) -> list[Extent]:
    """The topics whose names begin so, by name."""
    return [Extent(*row) for row in connection.execute(BY_PREFIX, {"prefix": prefix})]


def seq_at(connection: psycopg.Connection[Any], topic: Extent, ts: int) -> int:
    """The first seq whose `ts` is at or after a time; the head + 1 where all are older."""
    row = connection.execute(SEQ_AT, [topic.id, topic.floor, topic.head, ts]).fetchone()
    assert row is not None
    return int(row[0])


def divide(connection: psycopg.Connection[Any], topic: Extent, first: int, last: int, most: int) -> list[Part]:
    """first..last in at most so many parts of equally many records, but for one. Empty where there is no record.

    Above `ragged` seqs count records; below it halves are counted until the border is found, a range and a half in all.
    """
    first = max(first, topic.floor + 1)
    last = min(last, topic.head)
    whole, size = measure(connection, topic, first, last)
    parts: list[Part] = []
    for place in range(1, most + 1):
        records = whole * place // most - whole * (place - 1) // most
        if records:
            end = last if place == most else nth(connection, topic, first, last, records)
            parts.append(Part(first, end, records, size // whole))
            first = end + 1
    return parts


def nth(connection: psycopg.Connection[Any], topic: Extent, first: int, last: int, n: int) -> int:
    """The seq of the n-th record of first..last, which holds as many."""
    while first < last:
        middle = (first + last) // 2
        below, _ = measure(connection, topic, first, middle)
        if below >= n:
            last = middle
        else:
            first, n = middle + 1, n - below
    return first


def measure(connection: psycopg.Connection[Any], topic: Extent, first: int, last: int) -> tuple[int, int]:
    """How many records first..last hold, and how many bytes these have."""
    if first > last:
        return 0, 0
    row = connection.execute(RECORDS, [topic.id, first, last, topic.ragged]).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
