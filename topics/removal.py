"""Deletes of records. Deletes below a seq, or by a tag, share a transaction if they arrive together.

The result is the same as if the deletes ran one after another. If several deletes name the same topic and tag (or
no tag), the delete with the highest seq runs first, and the others find nothing left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from store.script import Coalesced, Done, PlannedTransaction, Statement
from topics.cache import CachedTopic
from topics.heads import LOCK_HEADS
from topics.insert import array

# LOCK_HEADS runs before this statement. A plain topic has only live records of its own above its floor. So the difference of two
# running totals gives the bytes to delete, and the statement handles all plain topics of the batch at once. This costs a tenth of
# topic_delete_below, which handles the other topics one by one: topics with a TTL, holes, or records that came through routers.
BELOW = """
WITH asked AS MATERIALIZED (
    SELECT n, head.topic_id, head.version, era, expired_ts, before_seq, head_seq, floor_seq, bytes, total,
           greatest(floor_seq, least(head_seq, before_seq - 1)) AS floor,
           expired_ts IS NULL AND floor_seq >= holes_seq AS plain
      FROM unnest(%(ids)s::bigint[], %(versions)s::bigint[], %(expired)s::bigint[], %(before_seqs)s::bigint[])
               WITH ORDINALITY AS known (topic_id, version, expired_ts, before_seq, n)
     CROSS JOIN LATERAL (SELECT * FROM topics_topichead WHERE topic_id = known.topic_id LIMIT 1) head
     WHERE head.version = known.version),
trimmed AS MATERIALIZED (
    SELECT n, topic_id, era, floor - floor_seq AS deleted, floor, head_seq, head_seq - floor AS count,
           CASE floor WHEN floor_seq THEN bytes
                      WHEN head_seq THEN 0
                      ELSE total - (SELECT total FROM topics_record_logged
                                     WHERE topic_id = asked.topic_id AND seq = floor) END AS bytes
      FROM asked
     WHERE plain),
moved AS (
    UPDATE topics_topichead head
       SET floor_seq = floor, count = trimmed.count, bytes = trimmed.bytes
      FROM trimmed
     WHERE head.topic_id >= trimmed.topic_id AND (head.topic_id, head.era) <= (trimmed.topic_id, trimmed.era) AND deleted > 0)
SELECT n - 1, deleted, floor + 1, head_seq, count, bytes FROM trimmed
 UNION ALL
SELECT n - 1, done.*
  FROM asked CROSS JOIN LATERAL topic_delete_below(topic_id, version, expired_ts, before_seq) done
 WHERE NOT plain
"""
# All records are marked before the first head is locked. The topics are in order, as in every statement that locks several heads
# (insert.py).
TAGGED = """
SELECT n - 1, deleted, earliest_seq, head_seq, count, bytes
  FROM topic_mark_tagged(%(ids)s::bigint[], %(versions)s::bigint[], %(expired)s::bigint[], %(of)s::bigint[], %(tags)s::text[],
                         %(before_seqs)s::bigint[])
 CROSS JOIN LATERAL topic_delete_marked(of_topic, of_version, of_expired_ts, ns, seqs, sizes)
"""


EXTENT = "SELECT floor_seq + 1, head_seq, count, bytes FROM topics_topichead WHERE topic_id = %s LIMIT 1"


class Deleted(NamedTuple):
    """The number of deleted records, and the figures of the topic after the delete."""

    deleted: int
    earliest_seq: int
    head_seq: int
    count: int  # type: ignore[assignment]  # hides the unused method of the tuple
    bytes: int


class SoleDeletion(Coalesced[Deleted]):
    """A delete that can take long, in its own transaction. Raises Outdated if the topic has another version."""

    def __init__(self, topic: CachedTopic, statement: Statement) -> None:
        self.statement, self.lock = statement, topic.id
        # Two lanes: at most two of these deletes run at once, and the coalescer's other connections are free for other steps.
        self.lane = f"{topic.id % 2}"

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        return [[each] for each in batch]

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        (each,) = batch
        return PlannedTransaction([each.statement, Statement(EXTENT, (each.lock,))])

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[Deleted]:
        ((deleted,),), (extent,) = done.rows
        return [Deleted(deleted, *extent)]


@dataclass(eq=False)
class Deletion(Coalesced[Deleted | None]):
    """Deletes the live records of a topic below `before_seq` (None: all). With a `tag`, deletes only records with this tag.

    The answer is None if nothing was deleted because the topic has another version. With a tag, the answer is also None if
    topic_mark_tagged does not handle the topic.
    """

    topic: CachedTopic
    before_seq: int | None
    tag: str | None
    now: int

    @property
    def lane(self) -> str:  # type: ignore[override]
        return "below" if self.tag is None else "tagged"

    @property
    def lock(self) -> int:  # type: ignore[override]
        return self.topic.id

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        wanted, now = farthest(batch), max(each.now for each in batch)
        topics = list(dict.fromkeys(topic for topic, _ in wanted))
        places = {topic: place for place, topic in enumerate(topics, 1)}
        ids = array([topic.id for topic in topics])
        arguments = {
            "ids": ids,
            "versions": [topic.version for topic in topics],
            "expired": [topic.expired_ts(now) for topic in topics],
            "of": [places[topic] for topic, _ in wanted],
            "tags": [tag for _, tag in wanted],
            "before_seqs": [each.before_seq for each in wanted.values()],
        }
        if batch[0].tag is not None:
            return PlannedTransaction([Statement(TAGGED, arguments)])
        return PlannedTransaction([Statement(LOCK_HEADS, (ids,)), Statement(BELOW, arguments)])

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[Deleted | None]:
        wanted = farthest(batch)
        same = list(wanted)
        found = {same[place]: Deleted(*rest) for place, *rest in done.rows[-1]}
        deleted: list[Deleted | None] = []
        for each in batch:
            what = each.topic, each.tag
            got = found.get(what)
            deleted.append(got if got is None or each is wanted[what] else got._replace(deleted=0))
        return deleted


Same = tuple[CachedTopic, str | None]  # the target of a deletion: a topic, and a tag or None


def farthest(batch: Sequence[Deletion]) -> dict[Same, Deletion]:
    """Returns the deletion with the highest `before_seq` for each target, in order of topic (None is the highest)."""

    def reach(each: Deletion) -> tuple[int, float]:
        return each.topic.id, math.inf if each.before_seq is None else each.before_seq

    return {(each.topic, each.tag): each for each in sorted(batch, key=reach)}
