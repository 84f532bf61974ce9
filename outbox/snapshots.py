"""Snapshots of captured tables: the rows that exist, in chunks, so that a reader of the topic ends with the state of the table.

A chunk and a look at the outbox share one snapshot of PostgreSQL. The relay first moves the records of the look, and then appends
the chunk. So each change that the chunk has seen comes before it, and each other change comes after it. docs/concurrency.md has
the proof. No row of the table is locked, and the table itself only against a change of its definition, while one chunk is read.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from base.errors import InvalidRequest, NotReady, Outdated
from outbox.appends import Appends, append_all, find
from outbox.drain import LOCK_MS, STOPPED, Look, begin, look
from outbox.packs import pack_of, unpacked
from outbox.rows import Row
from store.codec import Rows as Answer
from store.script import Script, Statement, atomically

CHUNK_ROWS, CHUNK_BYTES = 1000, 4 * 1024 * 1024

TEND = "SELECT capture_tend()"
# The name comes from PostgreSQL, quoted. It finds the table again only if the table keeps its name.
NEXT = """
SELECT id, topic, relid, relid::regclass::text, json_build_object('table', named)::text, after::text
  FROM outbox_capture WHERE snapshot = 'running' AND EXISTS (SELECT FROM pg_class WHERE oid = relid)
 ORDER BY id <= %s::bigint, id LIMIT 1
"""
ISOLATE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
LIMIT = f"SET LOCAL lock_timeout = '{LOCK_MS}ms'"  # for an index of the table that another transaction builds again
# The snapshot of the transaction begins after this lock. Otherwise a table that was rewritten in between would look empty.
LOCK = "LOCK TABLE {} IN ACCESS SHARE MODE NOWAIT"
IS_SAME = "SELECT %s::regclass::oid = %s::oid"
READ = "SELECT entry, reached::text FROM capture_chunk(%s, %s, %s)"
STILL = """
SELECT FROM outbox_capture WHERE id = %s AND snapshot = 'running' AND after::text IS NOT DISTINCT FROM %s::text FOR UPDATE
"""
MOVE = """
UPDATE outbox_capture
   SET snapshot = CASE WHEN %(rows)s::bigint = 0 THEN 'done' ELSE snapshot END, after = coalesce(%(after)s::text[], after),
       snapshotted = snapshotted + %(rows)s::bigint, lost = lost + %(lost)s::bigint, error = coalesce(%(error)s::text, error),
       error_ts = CASE WHEN %(error)s::text IS NULL THEN error_ts ELSE %(now)s::bigint END
 WHERE id = %(id)s::bigint
"""
# The transaction that holds the table may also end the capture, and then holds this row.
FAIL = """
UPDATE outbox_capture SET error = %s, error_ts = %s
 WHERE id = (SELECT id FROM outbox_capture WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED)
"""


class Snapshot(NamedTuple):
    """A snapshot that runs. `table`: the name as SQL. `after`: the key of the last row that was sent, as PostgreSQL writes it."""

    id: int
    topic: str
    relid: int
    table: str
    meta: str
    after: str | None


class SnapshotChunk(NamedTuple):
    """The next rows of a snapshot, as entries of a pack, each with its key. No row: the snapshot is complete."""

    of: Snapshot
    rows: Answer


def tend() -> Script[None]:
    """Finds the captured tables again after a rename, or a restore."""
    yield Statement(TEND)


def next_snapshot(after: int) -> Script[Snapshot | None]:
    """Returns the capture with a running snapshot that has its turn after this id, in a circle, or None if no snapshot runs."""
    found = yield Statement(NEXT, (after,))
    return Snapshot(*found[0]) if found else None


def look_with(snapshot: Snapshot, seen: str | None, most: int) -> Script[tuple[Look, SnapshotChunk | None]]:
    """Looks at the outbox, and reads the next chunk in the same snapshot of PostgreSQL.

    If the look cannot list all records, there is no chunk. Raises an error if the table cannot be read now.
    """

    def read() -> Script[tuple[Look, SnapshotChunk | None]]:
        yield Statement(ISOLATE)
        yield Statement(LIMIT)
        yield Statement(LOCK.format(snapshot.table))
        found = yield from look(seen, most)
        if len(found.listed) >= most:
            return found, None
        ((is_same,),) = yield Statement(IS_SAME, (snapshot.table, snapshot.relid))
        if not is_same:
            raise InvalidRequest("the table was renamed: the relay tries again")
        return found, SnapshotChunk(snapshot, (yield Statement(READ, (snapshot.id, CHUNK_ROWS, CHUNK_BYTES))))

    return (yield from atomically(read()))


class ChunkRefused(Exception):
    """The topic cannot take the chunk."""


def send(chunk: SnapshotChunk, now: int) -> Script[bool]:
    """Appends a chunk to its topic, and advances the snapshot. Returns False if the topic cannot take it now.

    The caller has moved all records that the look listed. Raises Outdated if the caller must try again, and TurnLost.
    """
    topic = chunk.of.topic
    found = yield from find([topic], now)
    row = Row(0, now, 0, None, None, None, "", chunk.of.meta)
    rows = list(unpacked(pack_of(chunk.of.id, [entry for entry, _ in chunk.rows]), row))
    losses = [row for row in rows if row.lost]

    def move() -> Script[Appends | None]:
        yield from begin()
        done = None
        if (yield Statement(STOPPED, ([topic],))) or not (yield Statement(STILL, (chunk.of.id, chunk.of.after))):
            raise ChunkRefused
        if rows:
            done = yield from append_all({topic: rows}, found, now, waits=False)
            if done.refused:
                raise ChunkRefused
        yield Statement(
            MOVE,
            {
                "id": chunk.of.id,
                "rows": len(rows),
                "after": chunk.rows[-1][1] if rows else None,
                "lost": len(losses),
                "error": losses[-1].reason if losses else None,
                "now": now,
            },
        )
        return done

    started = time.perf_counter()
    try:
        done = yield from atomically(move())
    except Outdated:
        raise
    except (ChunkRefused, NotReady):
        return False
    if done:
        done.committed(started)
    return True


def fail(snapshot: Snapshot, reason: str, now: int) -> Script[None]:
    """Notes why a table cannot be read now. The relay tries again."""
    yield Statement(FAIL, (reason, now, snapshot.id))
