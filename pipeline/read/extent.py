"""Looks up the range of seqs that a topic holds, and divides the range into parts with equal numbers of records.

The queries need only the SELECT rights of the role `topics_analyst`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg

from base.errors import TopicNotFound
from topics.read.ranges import EXTENT

ONE = f"{EXTENT} WHERE t.name = %s"
# A range of the unique index on the name. No character of a name sorts after "~".
BY_NAMES = f"{EXTENT} WHERE t.name = ANY (%s)"
BY_PREFIX = f"{EXTENT} WHERE t.name >= %(prefix)s AND t.name < %(prefix)s || '~' ORDER BY t.name"
DERIVED = """
SELECT t.name FROM topics_topic t JOIN topic_heads h ON h.topic_id = t.id WHERE h.derived AND t.id = ANY (%s)
"""
RECORDS = "SELECT records, bytes FROM topic_extent(%s, %s, %s, %s)"
SEQ_AT = "SELECT topic_seq_at(%s, %s, %s, %s)"


FETCH_BYTES = 8 * 1024 * 1024
LEAST_FETCH, MOST_FETCH = 20, 10_000  # records


class Extent(NamedTuple):
    """A topic at one moment. The seqs above `floor` up to `head` are all records that the topic shows at this moment.

    `holes`: at or below this seq the topic may have holes and forwarded records. `recreated`: the last head of deleted topics
    with the same name. The first seq of this topic is above `recreated`. `expires`: whether the topic has a TTL.
    """

    id: int
    name: str
    head: int
    floor: int
    holes: int
    recreated: int = 0
    expires: bool = False


class Part(NamedTuple):
    """Seqs first..last with `records` records. `mean_bytes` is the average record size of the whole divided range."""

    first: int
    last: int
    records: int
    mean_bytes: int = 0

    @property
    def fetch(self) -> int:
        """Returns how many records to fetch at once: about 8 MiB, but at least 20 and at most 10,000 records."""
        return max(LEAST_FETCH, min(MOST_FETCH, FETCH_BYTES // max(self.mean_bytes, 1)))


def extent(connection: psycopg.Connection[Any], topic: str) -> Extent:
    """Returns the topic as it is now. Raises TopicNotFound."""
    row = connection.execute(ONE, [topic]).fetchone()
    if row is None:
        raise TopicNotFound(f"there is no topic {topic!r}: check the name, or create the topic", topic=topic)
    return Extent(*row)


def extents(connection: psycopg.Connection[Any], prefix: str) -> list[Extent]:
    """Returns the topics whose names start with `prefix`, ordered by name."""
    return [Extent(*row) for row in connection.execute(BY_PREFIX, {"prefix": prefix})]


def derived(connection: psycopg.Connection[Any], topics: Iterable[Extent]) -> list[str]:
    """Returns the names of those topics that routers forward into."""
    return [name for (name,) in connection.execute(DERIVED, [[topic.id for topic in topics]])]


def seq_at(connection: psycopg.Connection[Any], topic: Extent, ts: int) -> int:
    """Returns the first seq whose `ts` is at or after `ts` (ms). Returns head + 1 if all records are older."""
    row = connection.execute(SEQ_AT, [topic.id, topic.floor, topic.head, ts]).fetchone()
    assert row is not None
    return int(row[0])


def divide(connection: psycopg.Connection[Any], topic: Extent, first: int, last: int, most: int) -> list[Part]:
    """Divides first..last into at most `most` parts.

    The numbers of records differ by at most 1. Returns [] if the range has no records.

    Above `holes`, the difference of seqs is the number of records. Below, a binary search counts records for each border, and
    reads about one and a half times the range.
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
    """Returns the seq of the n-th record of first..last. The range must have at least n records."""
    if first > topic.holes:
        return first + n - 1
    while first < last:
        middle = (first + last) // 2
        below, _ = measure(connection, topic, first, middle)
        if below >= n:
            last = middle
        else:
            first, n = middle + 1, n - below
    return first


def measure(connection: psycopg.Connection[Any], topic: Extent, first: int, last: int) -> tuple[int, int]:
    """Returns (number of records in first..last, bytes of these records)."""
    if first > last:
        return 0, 0
    row = connection.execute(RECORDS, [topic.id, first, last, topic.holes]).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
