"""The way of emitted records to their topics. Delete and append are one transaction, so each record arrives exactly once.

A look lists the new records, and drains take the next of the list. The order is the order of ids, or of commits if PostgreSQL
tracks their times: docs/concurrency.md has its promises. Only records of transactions that the last whole look did not see
are read. Rows that were moved stay in the index as long as some transaction is open, and a look from the first entry on would
read all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from base.errors import NotReady, Outdated, TopicsError
from outbox.appends import Appends, append_all, find
from outbox.packs import note, opened
from outbox.rows import Row, as_arguments
from store.script import Script, Statement, atomically

LOCK = 7500  # an advisory lock of PostgreSQL: its holder drains
LOCK_MS = 100  # for a head that another transaction holds

# `seen` is the snapshot of the last whole look: all that was visible to it is listed. A transaction that it did not see either
# began later, or was open: `late` are those that have ended since. Statement and snapshot see the same transactions.
# `committed` is NULL if PostgreSQL does not track it, or did not when the transaction committed. It is that of `xmin`, because
# the `xid` of a restored row is of another server. The session's name gets the time of the oldest record (RELAY in waiting.py).
LOOK = """
WITH now AS MATERIALIZED (
    SELECT pg_current_snapshot() AS snapshot, current_setting('track_commit_timestamp')::boolean AS is_tracked),
late AS MATERIALIZED (
    SELECT open.xid FROM now, pg_snapshot_xip(%(seen)s::pg_snapshot) open (xid)
     WHERE pg_visible_in_snapshot(open.xid, now.snapshot))
SELECT now.snapshot::text, found.*,
       set_config('application_name', substring(current_setting('application_name') FROM '^topics relay [0-9]+') || ' ' || oldest,
                  false)
  FROM now CROSS JOIN LATERAL (
       SELECT count(*), string_agg(xid::text, ' '), string_agg(id::text, ' '), string_agg(size::text, ' '), json_agg(topic),
              coalesce(min(ts), 0) AS oldest
         FROM (SELECT xid, id, ts, size, topic, CASE WHEN now.is_tracked THEN pg_xact_commit_timestamp(xmin) END AS committed
                 FROM outbox_emitted WHERE xid >= coalesce(pg_snapshot_xmax(%(seen)s::pg_snapshot), '0')
               UNION ALL
               SELECT emitted.* FROM late CROSS JOIN LATERAL (
                      SELECT xid, id, ts, size, topic, CASE WHEN now.is_tracked THEN pg_xact_commit_timestamp(xmin) END
                        FROM outbox_emitted WHERE xid = late.xid OFFSET 0) emitted
                ORDER BY committed NULLS FIRST, id LIMIT %(most)s) new) found
"""
# The lock may be ours already, for the session. If the session was lost, another relay can have it by now.
# The commit waits for the disk, for topics of every durability. Otherwise a crash could take a record back that a reader
# has seen, and the relay would append it again.
BEGIN = f"""
SELECT pg_try_advisory_xact_lock({LOCK}), set_config('synchronous_commit', 'on', true),
       set_config('lock_timeout', '{LOCK_MS}ms', true)
"""
# Each row is looked up by the primary key: a join could read the whole index, with its dead entries.
TAKE = """
WITH taken AS (
    DELETE FROM outbox_emitted
     WHERE ctid = ANY (ARRAY(
           SELECT found.ctid FROM ROWS FROM (unnest(%(xids)s::xid8[]), unnest(%(ids)s::bigint[])) AS wanted (xid, id)
            CROSS JOIN LATERAL (SELECT ctid FROM outbox_emitted WHERE xid = wanted.xid AND id = wanted.id LIMIT 1) found))
    RETURNING *)
SELECT topic, id, ts, size, tag, node, key, data::text, meta::text FROM taken
"""
STOPPED = "SELECT topic FROM outbox_stopped WHERE topic = ANY (%s)"
STOP = """
INSERT INTO outbox_stopped (topic, code, message, since_ts, next_ts) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
WAIT = """
INSERT INTO outbox_waiting (topic, ts, size, tag, node, key, data, meta)
SELECT %(topic)s, ts, size, tag, node, key, data, nullif(meta::text, 'null')::json
  FROM ROWS FROM (unnest(%(ts)s::bigint[]), unnest(%(sizes)s::int[]), json_array_elements_text(%(tags)s::json),
                  json_array_elements_text(%(nodes)s::json), json_array_elements_text(%(keys)s::json),
                  json_array_elements(%(data)s::json), json_array_elements(%(metas)s::json))
            WITH ORDINALITY AS row (ts, size, tag, node, key, data, meta, place)
 ORDER BY place
"""


class FoundRecord(NamedTuple):
    """A record that a look found."""

    xid: str
    id: int
    size: int
    topic: str


class Look(NamedTuple):
    """The new records in their order. `seen`: the snapshot for the next look. If not all were listed, it is the old one."""

    listed: list[FoundRecord]
    seen: str | None


class TurnLost(Exception):
    """Another relay drains."""


def look(seen: str | None, most: int) -> Script[Look]:
    """Returns the committed records that are new since a whole look with the snapshot `seen` (None: all records).

    If they are more than `most`, it returns the first of them in their order.
    """
    ((now, count, *columns, _, _),) = yield Statement(LOOK, {"seen": seen, "most": most})
    if not count:
        return Look([], now)
    xids, ids, sizes, topics = columns
    rows = zip(xids.split(), map(int, ids.split()), map(int, sizes.split()), msgspec.json.decode(topics), strict=True)
    return Look(list(map(FoundRecord._make, rows)), now if count < most else seen)


def drain(listed: Sequence[FoundRecord], now: int) -> Script[Appends]:
    """Moves these records to their topics, in one transaction. Records of a topic that cannot take them are set aside.

    Raises Outdated if the caller must try again, and TurnLost.
    """
    topics = yield from find(list(dict.fromkeys(each.topic for each in listed)), now)
    places = {each.id: place for place, each in enumerate(listed)}

    def move(waits: bool) -> Script[Appends]:
        yield from begin()
        wanted = {"xids": [each.xid for each in listed], "ids": [each.id for each in listed]}
        taken = yield Statement(TAKE, wanted)
        rows, noted = opened(sorted(taken, key=lambda row: places[row[1]]))
        yield from note(noted, now)
        for (name,) in (yield Statement(STOPPED, (list(rows),))):
            yield Statement(WAIT, {"topic": name, **as_arguments(rows.pop(name))})
        appends = yield from append_all(rows, topics, now, waits=waits)
        for name, (left, error) in appends.refused.items():
            yield from stop(name, left, error, now)
        return appends

    started = time.perf_counter()
    try:
        appends = yield from atomically(move(waits=True))
    except Outdated:
        raise
    except NotReady:  # another transaction holds a head. Only the topics of such heads wait
        started = time.perf_counter()
        appends = yield from atomically(move(waits=False))
    appends.committed(started)
    return appends


def set_aside(each: FoundRecord, error: TopicsError, now: int) -> Script[None]:
    """Lets a record wait that PostgreSQL refuses with this error, in a transaction. Raises TurnLost."""

    def move() -> Script[None]:
        yield from begin()
        rows, noted = opened((yield Statement(TAKE, {"xids": [each.xid], "ids": [each.id]})))
        yield from note(noted, now)
        for topic, waiting in rows.items():
            yield from stop(topic, waiting, error, now)

    yield from atomically(move())


def begin() -> Script[None]:
    """Begins to move records, in the transaction of the caller. Raises TurnLost."""
    ((is_ours, *_),) = yield Statement(BEGIN)
    if not is_ours:
        raise TurnLost


def stop(name: str, rows: Sequence[Row], error: TopicsError, now: int) -> Script[None]:
    """Sets the rows of a topic aside, until the topic takes them (waiting.py)."""
    yield Statement(WAIT, {"topic": name, **as_arguments(rows)})
    yield Statement(STOP, (name, error.code, error.message, now, now + LOCK_MS))
