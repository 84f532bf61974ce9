"""The leases and schedules of a queue, as state that a move takes to another server (topics/state.py)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from base.bounds import check_token
from base.depth import OLD_DEPTH
from base.errors import InvalidRequest
from base.labels import check_node
from contract.appending import OBJECT, no_meta
from queues.leases import MOST_ERROR_BYTES
from queues.schedules import LATEST_TS, MOST_CRON_CHARACTERS, check_cap, next_ts, zone
from store.script import Script, Statement
from topics.append.records import columns
from topics.audit import as_json
from topics.cache import CachedTopic
from topics.state import Number, StateKind, check_seqs

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Lease(msgspec.Struct, forbid_unknown_fields=True):
    """A job that a node holds, or that came back. Without a node, the job waits until the deadline.

    A job that was delivered too often has an empty node and no id, because a claim keeps it for the dead letter topic.
    """

    seq: Number
    node: str | None
    id: uuid.UUID | None
    deadline: Number
    deliveries: Count
    claimed_ts: Number | None
    error: str | None


# A range of the primary key.
LEASES = """
SELECT seq::text, json_build_object('seq', seq, 'node', node, 'id', id, 'deadline', deadline, 'deliveries', deliveries,
                                    'claimed_ts', claimed_ts, 'error', error)::text
  FROM queues_lease
 WHERE topic_id = %(topic_id)s AND seq > coalesce(nullif(%(after)s, '')::bigint, 0)
 ORDER BY seq LIMIT %(limit)s
"""
SAVE_LEASES = """
INSERT INTO queues_lease (topic_id, seq, durable, node, id, deadline, deliveries, claimed_ts, error)
SELECT %s, seq, %s, node, id, deadline, deliveries, claimed_ts, error
  FROM json_to_recordset(%s::json)
       AS new (seq bigint, node text, id uuid, deadline bigint, deliveries integer, claimed_ts bigint, error text)
ON CONFLICT (topic_id, seq, durable) DO UPDATE
   SET node = excluded.node, id = excluded.id, deadline = excluded.deadline, deliveries = excluded.deliveries,
       claimed_ts = excluded.claimed_ts, error = excluded.error
"""


def check_lease(row: Lease, head_seq: int) -> None:
    check_seqs(head_seq, seq=row.seq)
    if (not row.node) != (row.id is None):
        raise InvalidRequest("rows: a lease has both node and id, or neither", field="rows")
    if row.node is not None:
        check_node(row.node)
    if row.error is not None:
        check_token("error", row.error, MOST_ERROR_BYTES)


def save_leases(topic: CachedTopic, rows: Sequence[Lease]) -> Script[None]:
    yield Statement(SAVE_LEASES, (topic.id, topic.leases_durable, as_json(rows)))


class Queue(msgspec.Struct, forbid_unknown_fields=True):
    """How far claims came, and how many jobs became dead letters. `next_seq`: no job above this seq was ever claimed."""

    next_seq: Number
    dead_lettered: Number


QUEUE = """
SELECT 'queue', json_build_object('next_seq', next_seq, 'dead_lettered', coalesce(moved.jobs, 0))::text
  FROM queues_queue LEFT JOIN queues_moved moved USING (topic_id)
 WHERE topic_id = %(topic_id)s AND %(after)s = ''
 LIMIT %(limit)s
"""
# A sealed queue takes no call on its jobs, so no other transaction counts its leases. queue_lock brings the row up to date.
DROP_QUEUE = "DELETE FROM queues_queue WHERE topic_id = %s"
SAVE_QUEUE = """
INSERT INTO queues_queue (topic_id, durable, next_seq, floor_seq, in_flight, delayed, low_ts, swept_ts, era)
SELECT %(topic_id)s, %(durable)s, %(next_seq)s, 0, count(node) FILTER (WHERE deadline > now),
       count(*) FILTER (WHERE deadline > now AND node IS NULL), 0, now, 0
  FROM queue_now() now LEFT JOIN queues_lease ON topic_id = %(topic_id)s
 GROUP BY now
"""
SAVE_MOVED = """
INSERT INTO queues_moved (topic_id, jobs) VALUES (%s, %s) ON CONFLICT (topic_id) DO UPDATE SET jobs = excluded.jobs
"""


def check_queue(row: Queue, head_seq: int) -> None:
    check_seqs(head_seq, next_seq=row.next_seq)


def save_queue(topic: CachedTopic, rows: Sequence[Queue]) -> Script[None]:
    for row in rows:
        yield Statement(DROP_QUEUE, (topic.id,))
        wanted = {"topic_id": topic.id, "durable": topic.leases_durable, "next_seq": row.next_seq}
        yield Statement(SAVE_QUEUE, wanted)
        yield Statement(SAVE_MOVED, (topic.id, row.dead_lettered))


class Schedule(msgspec.Struct, forbid_unknown_fields=True):
    """A schedule, with the record of its jobs. `data` and `meta` keep exactly the bytes that were sent."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}\Z")]
    cron: Annotated[str, Meta(max_length=MOST_CRON_CHARACTERS)] | None
    timezone: str
    due_ts: Annotated[int, Meta(ge=0, le=LATEST_TS)]
    jobs: Number
    last_ts: Number | None
    last_seq: Number | None
    tag: str | None
    node: str | None
    data: msgspec.Raw
    meta: Annotated[msgspec.Raw, OBJECT] = msgspec.field(default_factory=no_meta)
    not_before: Annotated[int, Meta(ge=0, le=LATEST_TS)] | None = None


SCHEDULES = """
SELECT name, json_build_object('name', name, 'cron', cron, 'timezone', timezone, 'due_ts', due_ts, 'jobs', jobs,
                               'last_ts', last_ts, 'last_seq', last_seq, 'tag', tag, 'node', node, 'data', data,
                               'meta', meta, 'not_before', not_before)::text
  FROM queues_schedule
 WHERE topic_id = %(topic_id)s AND name > %(after)s
 ORDER BY name LIMIT %(limit)s
"""
# The topic is sealed now, and refuses the job of a schedule that is due. A worker that tries at once would try again after a
# minute. So the first attempt is a little later, when the move has opened the topic.
OPENS_WITHIN_MS = 2000
# meta and data arrive as texts, because json_to_recordset takes no \u0000, and gives a string other escapes.
SAVE_SCHEDULES = """
INSERT INTO queues_schedule
       (topic_id, name, cron, timezone, due_ts, try_ts, jobs, last_ts, last_seq, tag, node, meta, data, not_before)
SELECT %(topic_id)s, name, cron, timezone, due_ts, greatest(due_ts, queue_now() + %(later)s), jobs, last_ts, last_seq, tag, node,
       nullif(meta, 'null')::json, data::json, not_before
  FROM json_to_recordset(%(rows)s::json)
       AS new (name text, cron text, timezone text, due_ts bigint, jobs bigint, last_ts bigint, last_seq bigint, tag text,
               node text, meta text, data text, not_before bigint)
ON CONFLICT (topic_id, name) DO UPDATE
   SET cron = excluded.cron, timezone = excluded.timezone, due_ts = excluded.due_ts, try_ts = excluded.try_ts,
       jobs = excluded.jobs, last_ts = excluded.last_ts, last_seq = excluded.last_seq, error = NULL, tag = excluded.tag,
       node = excluded.node, meta = excluded.meta, data = excluded.data, not_before = excluded.not_before
RETURNING xmax = 0
"""


def check_schedule(row: Schedule, head_seq: int) -> None:
    """Raises InvalidRequest or RecordTooLarge for a schedule that a PUT refuses, too."""
    check_seqs(head_seq, last_seq=row.last_seq)
    timezone = zone(row.timezone)
    if row.cron is not None:
        next_ts(row.cron, timezone, row.due_ts)
    columns([row], None, is_copy=True, most_depth=OLD_DEPTH)


def save_schedules(topic: CachedTopic, rows: Sequence[Schedule]) -> Script[None]:
    texts = [{**asdict(row), "meta": bytes(row.meta).decode(), "data": bytes(row.data).decode()} for row in rows]
    saved = yield Statement(SAVE_SCHEDULES, {"topic_id": topic.id, "later": OPENS_WITHIN_MS, "rows": as_json(texts)})
    if any(is_new for (is_new,) in saved):
        yield from check_cap()


class DoneSchedule(msgspec.Struct, forbid_unknown_fields=True):
    """A schedule whose only job has come (sql/tables/queues_done.sql)."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}\Z")]
    not_before: Number
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
    ts: Number
    seq: Number


# A range of the primary key.
DONE = """
SELECT name, json_build_object('name', name, 'not_before', not_before, 'digest', encode(digest, 'hex'), 'ts', ts,
                               'seq', seq)::text
  FROM queues_done
 WHERE topic_id = %(topic_id)s AND name > %(after)s
 ORDER BY name LIMIT %(limit)s
"""
SAVE_DONE = """
INSERT INTO queues_done (topic_id, name, not_before, digest, ts, seq)
SELECT %s, name, not_before, decode(digest, 'hex'), ts, seq
  FROM json_to_recordset(%s::json) AS new (name text, not_before bigint, digest text, ts bigint, seq bigint)
ON CONFLICT (topic_id, name) DO UPDATE
   SET not_before = excluded.not_before, digest = excluded.digest, ts = excluded.ts, seq = excluded.seq
"""


def check_done(row: DoneSchedule, head_seq: int) -> None:
    check_seqs(head_seq, seq=row.seq)


def save_done(topic: CachedTopic, rows: Sequence[DoneSchedule]) -> Script[None]:
    yield Statement(SAVE_DONE, (topic.id, as_json(rows)))


# A move copies them in this order: the row of a queue counts the leases.
KINDS = {
    "leases": StateKind(Lease, LEASES, check_lease, save_leases, most=10_000),
    "queue": StateKind(Queue, QUEUE, check_queue, save_queue, most=1),
    "done": StateKind(DoneSchedule, DONE, check_done, save_done, most=10_000),
    "schedules": StateKind(Schedule, SCHEDULES, check_schedule, save_schedules, most=10),
}
