"""Copies: records of another server, written into a sealed topic with their seqs of that server (docs/wire.md, "Copies").

A repeated copy changes nothing, because the server skips records up to the head. The head's lock orders copies like it
orders appends.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from base.depth import OLD_DEPTH
from base.errors import BatchTooLarge, InvalidRequest, TopicsError
from contract.appending import OBJECT, no_meta
from store import disk
from store.script import Script, Statement, atomically
from topics import limits, sealed, wake
from topics.append.judged import full
from topics.append.records import MAX_RECORDS, Rows, columns
from topics.append.statements import LOGGED, MAKE_ROOM, SYNC, VOLATILE, array, records, room
from topics.cache import CachedTopic, as_known
from topics.delete.records import EXTENT, expire_backlog
from topics.heads import LOCK_CURRENT_HEAD, MOST_LEAD_MS

MOST_SEQ = 2**62  # so that a topic has enough seqs left for its whole life

# The caller holds the head's lock. A missing seq is a hole, like the hole of a deleted record. In a topic without records,
# the seqs before the first one are below the floor. So the copy of a log that starts late has no hole. A copy reserves no
# seq above its head. A crash would move the head over reserved seqs, and a repeated copy would skip the records of these
# seqs. So each copy waits for the disk (SYNC), at every durability.
COPY = """
WITH moved AS (
    UPDATE topics_topichead head
       SET head_seq = %(head_seq)s::bigint,
           era = topic_era(%(head_seq)s::bigint),
           unsettled = true,
           floor_seq = CASE WHEN head.count = 0 THEN %(first_seq)s::bigint - 1 ELSE head.floor_seq END,
           holes_seq = CASE WHEN {volatile} THEN %(head_seq)s::bigint
                             WHEN head.count = 0 THEN greatest(head.holes_seq, %(inner_hole)s::bigint)
                             ELSE greatest(head.holes_seq, %(hole)s::bigint) END,
           volatile_seq = CASE WHEN {volatile} THEN %(head_seq)s::bigint ELSE head.volatile_seq END,
           reserved_seq = greatest(head.reserved_seq, %(head_seq)s::bigint),
           count = head.count + %(count)s::bigint,
           bytes = head.bytes + %(bytes)s::bigint,
           total = head.total + %(bytes)s::bigint,
           last_ts = greatest(head.last_ts, %(last_ts)s::bigint)
     WHERE head.topic_id = %(id)s::bigint
    RETURNING head.topic_id, head.total - %(bytes)s::bigint AS base_total)
INSERT INTO topics_record_{partition} (topic_id, seq, ts, total, size, volatile, node, tag, meta, data)
SELECT moved.topic_id, new.seq, new.ts, moved.base_total + new.run, new.size, {volatile},
       new.node, new.tag, nullif(new.meta::text, 'null')::json, new.data
  FROM moved
 CROSS JOIN ROWS FROM (json_array_elements(%(data)s::json), json_array_elements_text(%(tags)s::json),
                       json_array_elements_text(%(nodes)s::json), json_array_elements(%(metas)s::json),
                       unnest(%(sizes)s::int[]), unnest(%(runs)s::bigint[]), unnest(%(seqs)s::bigint[]),
                       unnest(%(times)s::bigint[]))
            AS new (data, tag, node, meta, size, run, seq, ts)
"""
COPIES = {volatile: COPY.format(**kind) for volatile, kind in ((False, LOGGED), (True, VOLATILE))}
# If the source lost everything below a seq, the copy loses it, too: TRIM removes the records, and readers from below get a
# tombstone. A topic with holes can need several steps (sql/functions/topic_trim.sql): `upto` is the end of the first one.
TRIM = """
SELECT upto FROM topic_step_end(%(id)s, %(seq)s) upto
 CROSS JOIN LATERAL topic_trim(%(id)s, upto, 'delete')  -- without a reason: LOSE notes the reason
"""
LOSE = """
UPDATE topics_topichead
   SET cap_lost_seq = greatest(cap_lost_seq, CASE WHEN %(cap)s::boolean THEN %(seq)s::bigint END),
       ttl_lost_seq = greatest(ttl_lost_seq, CASE WHEN %(ttl)s::boolean THEN %(seq)s::bigint END),
       restart_lost_seq = greatest(restart_lost_seq, CASE WHEN %(restart)s::boolean THEN %(seq)s::bigint END),
       source_lost_seq = greatest(source_lost_seq, CASE WHEN %(source_trim)s::boolean THEN %(seq)s::bigint END),
       capture_lost_seq = greatest(capture_lost_seq, CASE WHEN %(capture)s::boolean THEN %(seq)s::bigint END)
 WHERE topic_id = %(id)s::bigint
"""
# A loss behind live records is a piece without a home, like the pieces of topics_recover and topic_lose. (topic_lose reserves
# seqs above the head, which a copy must not.) A topic without records has its losses below the floor (topic_shrink).
LOSE_BEHIND = """
WITH piece AS (
    INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                              keep_tag, path)
    SELECT topic_id, head_seq + 1, %(gap_to)s::bigint, NULL, 0, 0, last_ts, false, true, true, %(path)s::text[]
      FROM topics_topichead WHERE topic_id = %(id)s::bigint)
UPDATE topics_topichead
   SET head_seq = %(gap_to)s::bigint, era = topic_era(%(gap_to)s::bigint), holes_seq = %(gap_to)s::bigint,
       reserved_seq = greatest(reserved_seq, %(gap_to)s::bigint), unsettled = true
 WHERE topic_id = %(id)s::bigint
"""
SINK_IF_EMPTY = "SELECT topic_shrink(topic_id, floor_seq, 0, 0) FROM topics_topichead WHERE topic_id = %s AND count = 0"
# Notes the records that a reader of the source had to undo (sql/functions/topic_lost_from.sql).
NOTE_CRASH = """
INSERT INTO topics_crashloss (topic_id, first_seq, last_seq) VALUES (%s, %s, %s) ON CONFLICT (topic_id, last_seq) DO NOTHING
"""


LostSeq = Annotated[int, Meta(ge=0, le=MOST_SEQ)]
# Each reason of a tombstone, and the losses of a head that give a reader this reason.
LOSSES = {
    "cap": {"cap"},
    "ttl": {"ttl"},
    "restart": {"restart"},
    "source_trim": {"source_trim"},
    "capture": {"capture"},
    "mixed": {"cap", "ttl"},
    "recreated": {"cap"},
}
REASONS = ("cap", "ttl", "restart", "source_trim", "capture")  # the reasons that LOSE knows


class CopiedRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A record as a diff shows it. `data` and `meta` keep exactly the bytes that were sent."""

    data: msgspec.Raw
    """Any JSON value, also null. With `meta` at most 1 MiB."""
    seq: Annotated[int, Meta(ge=1, le=MOST_SEQ)] = msgspec.field(name="$seq")
    """The record's seq, which the copy keeps. Seqs must ascend."""
    ts: Annotated[int, Meta(ge=0, le=2**62)] = msgspec.field(name="$ts")
    """Time of the append, in milliseconds since the epoch. Times must not descend, and are at most 10 s ahead of this server."""
    node: str | None = msgspec.field(name="$node", default=None)
    """Name of the writer: 1 to 128 bytes."""
    tag: str | None = msgspec.field(name="$tag", default=None)
    """A label for deletes, filters and routers: 1 to 256 bytes."""
    meta: Annotated[msgspec.Raw, OBJECT] = msgspec.field(default_factory=no_meta)
    """A small object beside the data. It keeps the stamp of an `exactly_once` router as the diff showed it."""
    topic: str | None = msgspec.field(name="$topic", default=None)
    """Accepted, without an effect."""


LossReason = Annotated[
    Literal["cap", "ttl", "restart", "source_trim", "capture", "mixed", "recreated"], Meta(title="LossReason")
]


class CopiedTombstone(msgspec.Struct, forbid_unknown_fields=True):
    """The tombstone of a diff answer, unchanged."""

    gap_to: LostSeq
    """The last lost seq. The records of the same answer are above it."""
    reason: LossReason
    """Reason of the loss."""
    earliest_seq: LostSeq
    """The first live record of the source. If it is above `gap_to`, everything below it is lost. Otherwise only the gap is
    lost."""
    lost_from: Annotated[int, Meta(ge=1, le=MOST_SEQ)] | None = None
    """The first seq of a loss by a crash."""
    gap_from: int | None = None
    """Accepted, without an effect: the gap starts above the head of the copy."""
    missed_estimate: int | None = None
    """Accepted, without an effect."""
    head_seq: int | None = None
    """Accepted, without an effect."""

    @property
    def lies_behind(self) -> bool:
        """Whether the loss lies behind live records."""
        return self.gap_to >= self.earliest_seq


class Copy(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a copy."""

    copy: bool
    """True: the records come from another server and keep their seqs."""
    records: list[CopiedRecord]
    """Up to 10000 records, as a diff with `include_tags` shows them. The server skips records up to the head, so
    you can send a copy again. Empty only beside one of the next three fields."""
    head_seq: Annotated[int, Meta(ge=0, le=MOST_SEQ)] | None = None
    """The topic's head after the copy, at least. Not below the last `$seq`. Seqs between it and the
    head are holes."""
    earliest_seq: LostSeq | None = None
    """All records below this seq are lost, by `ttl` if the topic has a TTL and no cap, else by `cap`. Readers from below get a
    tombstone. At most the head + 1."""
    tombstone: CopiedTombstone | None = None
    """In place of `earliest_seq`: the tombstone of the diff answer. Readers get a tombstone with the same reason."""


class Marked(msgspec.Struct):
    """The field that distinguishes a copy from an append."""

    copy: bool = False


def is_copy(body: bytes) -> bool:
    """Returns whether the body of an append is the body of a copy."""
    if b'"copy"' not in body:
        return False
    try:
        return msgspec.json.decode(body, type=Marked).copy
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False  # then the error is one of an append


class Copied(NamedTuple):
    """The written seqs, the head after the copy, and the time of the statements and of the commit in ms."""

    seqs: Sequence[int]
    head_seq: int
    wal_append_ms: float
    fsync_ms: float


def check_copy(wanted: Copy, now: int) -> Rows:
    """Returns the records as rows. Raises InvalidRequest, BatchTooLarge, RecordTooLarge or StorageFull if they must not be
    written."""
    disk.check()
    found = wanted.records
    if len(found) > MAX_RECORDS:
        raise BatchTooLarge(f"{len(found)} records in one copy: expected at most {MAX_RECORDS}", max=MAX_RECORDS)
    for place, (before, record) in enumerate(pairwise(found), 1):
        if record.seq <= before.seq:
            raise InvalidRequest(
                f"records[{place}] has the $seq {record.seq} after {before.seq}: expected ascending seqs"
            )
        if record.ts < before.ts:
            raise descends(record.seq, record.ts, before.ts)
    tombstone = wanted.tombstone
    if tombstone is not None and wanted.earliest_seq is not None:
        raise InvalidRequest("earliest_seq and tombstone exclude each other: send one")
    if not found and wanted.head_seq is None and wanted.earliest_seq is None and tombstone is None:
        raise InvalidRequest("the copy is empty: expected records, head_seq, earliest_seq or tombstone")
    if not found:
        return Rows([], [], [], [], [], 0)
    if tombstone is not None and found[0].seq <= tombstone.gap_to:
        raise InvalidRequest(
            f"the first $seq is {found[0].seq}: expected a seq above the tombstone's gap_to, {tombstone.gap_to}"
        )
    last = found[-1]
    if last.ts > now + MOST_LEAD_MS:
        ahead = last.ts - now
        raise InvalidRequest(
            f"$ts {last.ts} is {ahead} ms ahead of this server's clock: expected at most {MOST_LEAD_MS} ms"
        )
    if wanted.head_seq is not None and wanted.head_seq < last.seq:
        raise InvalidRequest(
            f"head_seq is {wanted.head_seq}: expected at least {last.seq}, the $seq of the last record"
        )
    return columns(found, None, is_copy=True, most_depth=OLD_DEPTH)


def descends(seq: int, ts: int, before: int) -> InvalidRequest:
    return InvalidRequest(f"record {seq} has the $ts {ts} after {before}: expected times that do not descend")


def copy(name: str, wanted: Copy, rows: Rows, now: int) -> Script[Copied]:
    """Writes the records above the head, moves the head, and loses the seqs that the source lost.

    Raises TopicNotFound, TopicNotSealed, TopicFull, InvalidRequest or NotReady, and then changes nothing.
    """
    if limits.MOST_TOTAL_BYTES:
        yield from limits.check_total_bytes(rows.bytes)

    def write(topic: CachedTopic) -> Script[Copied | None]:
        if topic.rejects and not (yield from expire_backlog(topic, now)):
            return None
        started = time.perf_counter()
        try:
            done = yield from atomically(copy_once(topic, wanted, rows, now), topic.id)
        except TopicsError as error:
            sealed.marked(error, topic.sealed)
            raise
        except MoreToLose as more:
            if not (yield from lose_steps(topic, more)):
                return None
            return (yield from write(topic))
        if done is None:
            return None
        wake.moved(topic, done.head_seq)
        whole_ms = (time.perf_counter() - started) * 1000
        return done._replace(fsync_ms=whole_ms - done.wal_append_ms)

    return (yield from as_known(name, write))


def copy_once(topic: CachedTopic, wanted: Copy, rows: Rows, now: int) -> Script[Copied | None]:
    """Copies once. Returns None if the topic's version differs from the cached one."""
    started = time.perf_counter()
    yield Statement(SYNC, ("on",))
    held = yield Statement(LOCK_CURRENT_HEAD, (topic.id, topic.version))
    if not held:
        return None
    if not topic.sealed:
        raise sealed.not_sealed(topic.name)
    ((before, last_ts),) = held
    stored = before
    seqs = [record.seq for record in wanted.records]
    skipped = bisect_right(seqs, before)
    new, seqs, times = rows.behind(skipped), seqs[skipped:], [record.ts for record in wanted.records[skipped:]]
    if times and times[0] < last_ts:
        raise descends(seqs[0], times[0], last_ts)
    tombstone = wanted.tombstone
    head_seq = max(before, wanted.head_seq or 0, 0 if tombstone is None else tombstone.gap_to, *seqs[-1:])
    lost_seq, why = lost_below(topic, wanted)
    if lost_seq > head_seq:
        raise InvalidRequest(f"earliest_seq is {lost_seq + 1}: expected at most {head_seq + 1}, the head + 1")
    if topic.rejects:
        yield from check_room(topic, new, now)
    if tombstone is not None and tombstone.lies_behind and tombstone.gap_to > before:
        yield from lose_behind(topic, tombstone)
        before = tombstone.gap_to
    if head_seq > before:
        yield Statement(COPIES[topic.volatile], parameters(topic, before, head_seq, seqs, times, new))
    reached = 0
    while reached < lost_seq:
        reached = yield from lose_step(topic, lost_seq, why)
        if reached < min(lost_seq, stored):
            raise MoreToLose(lost_seq, why)
    if tombstone is not None and tombstone.lost_from is not None:
        yield Statement(NOTE_CRASH, (topic.id, min(tombstone.lost_from, tombstone.gap_to), tombstone.gap_to))
    if topic.evicts:
        yield Statement(MAKE_ROOM, room(topic, [new], now))
    return Copied(seqs, head_seq, (time.perf_counter() - started) * 1000, 0.0)


class MoreToLose(Exception):
    """The source lost more than one step below `seq`. The copy changed nothing yet."""

    def __init__(self, seq: int, why: set[str]) -> None:
        super().__init__(seq, why)
        self.seq, self.why = seq, why


def lose_steps(topic: CachedTopic, more: MoreToLose) -> Script[bool]:
    """Loses what the source lost, each step in its own transaction, as far as records are stored. So a copy holds the head for a
    step at most. Returns False if the topic has another version."""

    def lose() -> Script[int | None]:
        held = yield Statement(LOCK_CURRENT_HEAD, (topic.id, topic.version))
        if not held:
            return None
        upto = min(more.seq, held[0][0])
        return upto - (yield from lose_step(topic, upto, more.why))

    while left := (yield from atomically(lose(), topic.id)):
        pass
    return left is not None


def lose_step(topic: CachedTopic, seq: int, why: set[str]) -> Script[int]:
    """Loses everything up to this seq, or one step of it. Returns the last seq of the step. The caller holds the head."""
    ((upto,),) = yield Statement(TRIM, {"id": topic.id, "seq": seq})
    yield Statement(LOSE, {"id": topic.id, "seq": upto, **{each: each in why for each in REASONS}})
    return int(upto)


def check_room(topic: CachedTopic, rows: Rows, now: int) -> Script[None]:
    """Raises TopicFull. Expired records need no room: no reader sees them any more."""
    ((_, _, records, bytes),) = yield Statement(EXTENT, (topic.expired_ts(now), topic.id))
    if (topic.cap_records and records + len(rows.data) > topic.cap_records) or (
        topic.cap_bytes and bytes + rows.bytes > topic.cap_bytes
    ):
        raise full(topic, records, bytes, rows)


def lose_behind(topic: CachedTopic, tombstone: CopiedTombstone) -> Script[None]:
    """Loses the seqs from the head to the end of the gap."""
    path = {"restart": [], "capture": ["$capture"]}.get(tombstone.reason, ["copy"])
    yield Statement(LOSE_BEHIND, {"id": topic.id, "gap_to": tombstone.gap_to, "path": path})
    yield Statement(SINK_IF_EMPTY, (topic.id,))


def lost_below(topic: CachedTopic, wanted: Copy) -> tuple[int, set[str]]:
    """Returns the seq up to which everything is lost (0 or less if nothing is), and the kinds of the loss."""
    tombstone = wanted.tombstone
    if tombstone is None:
        has_ttl_alone = topic.ttl_ms and not (topic.cap_records or topic.cap_bytes)
        return (wanted.earliest_seq or 0) - 1, LOSSES["ttl" if has_ttl_alone else "cap"]
    return (0, set()) if tombstone.lies_behind else (tombstone.gap_to, LOSSES[tombstone.reason])


def parameters(
    topic: CachedTopic, before: int, head_seq: int, seqs: Sequence[int], times: Sequence[int], rows: Rows
) -> dict[str, Any]:
    """Returns the arguments of COPY."""
    hole = last_hole([before, *seqs], head_seq)
    return {
        "id": topic.id,
        "head_seq": head_seq,
        "first_seq": seqs[0] if seqs else head_seq + 1,
        "hole": hole,
        "inner_hole": last_hole(seqs, head_seq) if seqs else 0,
        "count": len(seqs),
        "bytes": rows.bytes,
        "last_ts": times[-1] if times else 0,
        "runs": array(list(accumulate(rows.sizes))),
        "seqs": array(seqs),
        "times": array(times),
        **records(rows),
    }


def last_hole(seqs: Sequence[int], head_seq: int) -> int:
    """Returns the last missing seq between the first of `seqs` and the head, or 0."""
    if head_seq > seqs[-1]:
        return head_seq
    return next((seq - 1 for before, seq in reversed(list(pairwise(seqs))) if seq - before > 1), 0)
