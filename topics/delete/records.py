"""Deletes records: below a seq, with a tag, or with given seqs (docs/wire.md). Locks and accepted races: docs/concurrency.md.

A delete is silent and permanent: readers continue without a tombstone. Reclaim removes rows and spans later
(upkeep/reclaim.py).

Deletes below a seq, or by a tag, share a transaction if they arrive together. The result is the same as if the deletes ran one
after another. If several deletes name the same topic and tag (or no tag), the delete with the highest seq runs first, and the
others find nothing left.

Work that finds more to remove than one step takes one step and continues, because readers do not see expired records, also
above the floor. So a delete or an ack takes one step of expiry. Deletes by clients, copies and a new TTL take all steps
beforehand (`expire_backlog`). If a delete by `before_seq` still finds more, it deletes nothing in this transaction, because
expired records were lost, not deleted. If an append to a topic that rejects finds more, it is sent again instead of refused. An
append evicts as much as it adds, so each commit stays within the caps. If a lower cap left more, the append evicts one step,
and the PUT evicts the rest (`topic_evict`). Evicted records that had expired count as expired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from base.errors import InvalidRequest, Outdated
from base.names import after_prefix
from contract.deleting import DeleteFields
from contract.reading import Match
from store.script import Coalesced, Done, PlannedTransaction, Script, Statement
from topics import sealed
from topics.append.statements import array
from topics.cache import CachedTopic, as_known
from topics.heads import BACKLOG, LOCK_HEADS
from topics.hooks import hooks
from topics.models import Topic
from topics.read.diff import check_match
from wire.request.parse import Destruction

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
       SET unsettled = true, floor_seq = floor, count = trimmed.count, bytes = trimmed.bytes
      FROM trimmed
     WHERE head.topic_id >= trimmed.topic_id AND (head.topic_id, head.era) <= (trimmed.topic_id, trimmed.era) AND deleted > 0)
SELECT n - 1, deleted, floor + 1, head_seq, count, bytes FROM trimmed
 UNION ALL
SELECT n - 1, done.*
  FROM asked CROSS JOIN LATERAL topic_delete_below(topic_id, version, expired_ts, before_seq) done
 WHERE NOT plain
"""
# All records are marked before the first head is locked. The topics are in order, as in every statement that locks several heads
# (append/statements.py).
TAGGED = """
SELECT n - 1, deleted, earliest_seq, head_seq, count, bytes
  FROM topic_mark_tagged(%(ids)s::bigint[], %(versions)s::bigint[], %(expired)s::bigint[], %(of)s::bigint[], %(tags)s::text[],
                         %(before_seqs)s::bigint[])
 CROSS JOIN LATERAL topic_delete_marked(of_topic, of_version, of_expired_ts, ns, seqs, sizes)
"""
# Uses the index on the tag. The function locks first the records, then the head, and then compares the topic's version
# (sql/functions/topic_delete_match.sql). If the version differs, the transaction rolls back.
DELETE_MATCH = "SELECT topic_delete_match(%s, %s, %s, %s, %s, %s, %s)"
# This works in the same way (sql/functions/topic_delete_seqs.sql).
DELETE_SEQS = "SELECT topic_delete_seqs(%s, %s, %s::bigint[], %s)"
EXTENT = """
SELECT earliest_seq, head_seq, records, payload FROM topics_topichead head CROSS JOIN LATERAL topic_stat(head, %s)
 WHERE topic_id = %s LIMIT 1
"""


class Delete(DeleteFields, Destruction):
    """The body of a record delete."""


class Deleted(NamedTuple):
    """The number of deleted records, and the figures of the topic after the delete."""

    deleted: int
    earliest_seq: int
    head_seq: int
    count: int  # type: ignore[assignment]  # hides the unused method of the tuple
    bytes: int


class SoleDeletion(Coalesced[Deleted]):
    """A delete that can take long, in its own transaction. Raises Outdated if the topic has another version."""

    def __init__(self, topic: CachedTopic, statement: Statement, expired_ts: int | None) -> None:
        self.statement, self.lock, self.expired_ts = statement, topic.id, expired_ts
        # Two lanes: at most two of these deletes run at once, and the coalescer's other connections are free for other steps.
        self.lane = f"{topic.id % 2}"

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        return [[each] for each in batch]

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        (each,) = batch
        return PlannedTransaction([each.statement, Statement(EXTENT, (each.expired_ts, each.lock))])

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[Deleted]:
        ((deleted,),), (extent,) = done.rows
        return [Deleted(deleted, *extent)]


# The id and version of a topic, and a tag or None. A CachedTopic would not do as a key: appends change the era that it knows.
Target = tuple[int, int, str | None]


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

    @property
    def target(self) -> Target:
        return self.topic.id, self.topic.version, self.tag

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        wanted, now = farthest(batch).values(), max(each.now for each in batch)
        topics = {each.target[:2]: each.topic for each in wanted}
        places = {topic: place for place, topic in enumerate(topics, 1)}
        ids = array([id for id, _ in topics])
        arguments = {
            "ids": ids,
            "versions": [version for _, version in topics],
            "expired": [topic.expired_ts(now) for topic in topics.values()],
            "of": [places[each.target[:2]] for each in wanted],
            "tags": [each.tag for each in wanted],
            "before_seqs": [each.before_seq for each in wanted],
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
            got = found.get(each.target)
            deleted.append(got if got is None or each is wanted[each.target] else got._replace(deleted=0))
        return deleted


def expire_backlog(topic: CachedTopic, now: int) -> Script[bool]:
    """Expires records in steps, each in its own transaction, until at most one step is left. So no later statement counts many
    expired records while it holds the head. Returns False if the topic has another version."""
    expired_ts = topic.expired_ts(now)
    if expired_ts is not None:
        while (yield Statement(BACKLOG, {"id": topic.id, "expired_ts": expired_ts}, quick=True)):
            if (yield Deletion(topic, 0, None, now)) is None:  # deletes nothing below seq 0, and first expires a step
                return False
    return True


def farthest(batch: Sequence[Deletion]) -> dict[Target, Deletion]:
    """Returns the deletion with the highest `before_seq` for each target, in order of topic (None is the highest)."""

    def reach(each: Deletion) -> tuple[int, float]:
        return each.topic.id, math.inf if each.before_seq is None else each.before_seq

    return {each.target: each for each in sorted(batch, key=reach)}


def delete_records(
    name: str, before_seq: int | None, match: Match | None, now: int, *, is_copy: bool = False
) -> Script[Deleted]:
    """Deletes the live records that lie below before_seq and match. Returns their number, and what the topic holds then.

    In a topic with holes, a long delete takes several transactions, from the oldest record on. So appends need not wait, and a
    call that fails can have deleted a part.

    Raises TopicNotFound, TopicSealed, TopicNotSealed, InvalidRequest or NotReady.
    """
    if before_seq is None and match is None:
        raise InvalidRequest("the condition is missing: send before_seq, match or both, or seqs")
    op, literal = check_match(match)

    def delete(topic: CachedTopic) -> Script[Deleted | None]:
        return delete_once(topic, before_seq, op, literal, now)

    done = yield from deleting(name, delete, now, is_copy)
    reached = 0
    while op is None and before_seq is not None and reached < done.earliest_seq < min(before_seq, done.head_seq + 1):
        before, reached = done.deleted, done.earliest_seq
        done = yield from deleting(name, delete, now, is_copy)
        done = done._replace(deleted=before + done.deleted)
    return done


def delete_seqs(name: str, seqs: list[int], now: int, *, is_copy: bool = False) -> Script[Deleted]:
    """Deletes the live records with these seqs. Raises TopicNotFound, TopicSealed, TopicNotSealed or NotReady."""

    def delete(topic: CachedTopic) -> Script[Deleted | None]:
        expired_ts = topic.expired_ts(now)
        wanted = (topic.id, topic.version, array(seqs), expired_ts)
        return (yield SoleDeletion(topic, Statement(DELETE_SEQS, wanted), expired_ts))

    return deleting(name, delete, now, is_copy)


def deleting(
    name: str, delete: Callable[[CachedTopic], Script[Deleted | None]], now: int, is_copy: bool
) -> Script[Deleted]:
    """Runs `delete` with the topic as it is cached, if the topic's seal allows the delete. Returns the result of `delete`."""

    def work(topic: CachedTopic) -> Script[Deleted | None]:
        if not (yield from sealed.check_seal(topic, is_copy)):
            return None
        if topic.derived:
            yield from hooks.value.before_read(topic, now)  # the delete must find all that a reader sees
        if not (yield from expire_backlog(topic, now)):
            return None
        try:
            deleted = yield from delete(topic)
        except Outdated:
            return None
        if deleted is not None and deleted.deleted and topic.type == Topic.Type.QUEUE:
            yield from hooks.value.after_delete(topic, now)
        return deleted

    return as_known(name, work)


def delete_once(
    topic: CachedTopic, before_seq: int | None, op: str | None, literal: str | None, now: int
) -> Script[Deleted | None]:
    """Deletes once. Returns None or raises Outdated if the topic's version differs. Then nothing is deleted."""
    if op is None or literal is None:
        below: Deleted | None = yield Deletion(topic, before_seq, None, now)
        return below
    if op == "Eq" and not topic.derived:
        tagged: Deleted | None = yield Deletion(topic, before_seq, literal, now)
        if tagged is not None:
            return tagged
    end = after_prefix(literal) if op == "Glob" else None
    expired_ts = topic.expired_ts(now)
    wanted = (topic.id, topic.version, before_seq, op, literal, end, expired_ts)
    matching: Deleted = yield SoleDeletion(topic, Statement(DELETE_MATCH, wanted), expired_ts)
    return matching
