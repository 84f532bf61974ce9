"""Counts the topics: adds what changed since the last count to topics_total (sql/functions/topic_totals.sql).

The totals are exact without this module. The steps keep the heads few that a look at the totals has to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.db import transaction

from store.database import prepared
from topics.upkeep.unsettled import BY_INDEX, COUNTS, EXPIRES, LEADS, RECLAIMS, RESERVES

STEP = 500  # heads, which are locked until the commit: some 10 ms

# Also heads without any work left, because only a step of the background settles a head.
CHANGED = f"""
SELECT topic_id FROM unsettled_heads() topics_topichead
 WHERE {COUNTS} OR NOT ({RESERVES} OR {RECLAIMS} OR {LEADS} OR {EXPIRES})
 ORDER BY topic_id
"""
# For topics that a process of an earlier version changed or deleted: it knows neither the column nor the totals, and notes no
# expiry. And for heads that lead. SKIP LOCKED leaves out a head that an append holds, because a wait for it could deadlock with
# appends to several topics. Such an append unsettles its head.
FIND_MISSED = f"""
UPDATE topics_topichead SET unsettled = true
 WHERE topic_id = ANY (ARRAY(
       SELECT topic_id FROM topics_topichead
        WHERE NOT unsettled AND ({RESERVES} OR {RECLAIMS} OR {COUNTS} OR {LEADS} OR {EXPIRES})
          FOR NO KEY UPDATE SKIP LOCKED))
"""
CORRECT = """
INSERT INTO topics_total (topics, records, bytes)
SELECT counted.topics - held.topics, counted.records - held.records, counted.bytes - held.bytes
  FROM (SELECT count(*) FILTER (WHERE counted_seq >= 0) AS topics, coalesce(sum(counted_count), 0) AS records,
               coalesce(sum(counted_bytes), 0) AS bytes FROM topics_topichead) counted,
       (SELECT coalesce(sum(topics), 0) AS topics, coalesce(sum(records), 0) AS records, coalesce(sum(bytes), 0) AS bytes
          FROM topics_total) held
 WHERE (counted.topics, counted.records, counted.bytes) <> (held.topics, held.records, held.bytes)
"""
# SKIP LOCKED leaves out a head that an append holds. This head stays unsettled, and a later step counts it.
COUNT = f"""
WITH changed AS MATERIALIZED (
    SELECT head.* FROM unnest(%s::bigint[]) AS wanted (id)
     CROSS JOIN LATERAL (SELECT topic_id, head_seq, count, bytes, counted_seq, counted_count, counted_bytes,
                                {RESERVES} OR {RECLAIMS} OR {LEADS} OR {EXPIRES} AS unsettled
                           FROM topics_topichead WHERE topic_id = wanted.id FOR NO KEY UPDATE SKIP LOCKED) head),
added AS (
    INSERT INTO topics_total (topics, records, bytes)
    SELECT count(*) FILTER (WHERE counted_seq < 0), sum(count - counted_count), sum(bytes - counted_bytes) FROM changed
    HAVING count(*) > 0)
UPDATE topics_topichead head
   SET counted_seq = changed.head_seq, counted_count = changed.count, counted_bytes = changed.bytes,
       unsettled = changed.unsettled
  FROM changed WHERE head.topic_id = changed.topic_id
RETURNING head.topic_id, changed.head_seq, changed.count, changed.bytes
"""
# If two processes merge at once, the second one waits, and then finds the rows of the first deleted.
MERGE = """
WITH merged AS (DELETE FROM topics_total RETURNING topics, records, bytes)
INSERT INTO topics_total (topics, records, bytes)
SELECT sum(topics), sum(records), sum(bytes) FROM merged HAVING count(*) > 0
"""


class Counted(NamedTuple):
    """A topic, and what topics_total holds of it from now on."""

    topic_id: int
    head_seq: int
    records: int
    bytes: int


def changed_topics() -> list[int]:
    """Returns the ids of the topics that changed since they were counted."""
    return [id for (id,) in prepared(CHANGED, ())]


def count(topic_ids: list[int]) -> Iterator[list[Counted]]:
    """Counts topics in steps. Yields within the transaction of each step, so that the caller can save what was counted."""
    for first in range(0, len(topic_ids), STEP):
        with transaction.atomic():
            prepared(BY_INDEX, ())
            yield [Counted(*row) for row in prepared(COUNT, (topic_ids[first : first + STEP],))]


def correct() -> None:
    """Reads all heads, for what an earlier version or a clock did to settled ones. One process at a time may do this."""
    prepared(FIND_MISSED, ())
    prepared(CORRECT, ())


def merge() -> None:
    """Merges the rows of topics_total."""
    prepared(MERGE, ())
