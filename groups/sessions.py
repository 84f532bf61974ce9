"""Statements of a web process about its members: their sessions, their shares and the cursors of these."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from base.errors import NotFound, SessionEnded
from groups.groups import find
from store.script import Script, Statement, atomically

# In order, like every statement that locks several members.
REFRESH = """
WITH alive AS (SELECT id FROM groups_member WHERE id = ANY (%s) ORDER BY id FOR NO KEY UPDATE)
UPDATE groups_member m SET seen_ts = extract(epoch FROM clock_timestamp()) * 1000 FROM alive WHERE m.id = alive.id
"""
SETTLE = "SELECT groups_settle(%s::bigint[], %s::integer[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])"
TIMED_OUT = """
SELECT DISTINCT group_id FROM groups_member
 WHERE group_id = ANY (%s) AND seen_ts + session_ms < extract(epoch FROM clock_timestamp()) * 1000
"""
ASSIGN = "SELECT groups_assign(%s)"
# The shares of each session. A session without shares has one row, with nulls. A session that has ended has none.
LOOK = """
SELECT m.id, m.seen_ts + m.session_ms - (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       s.share, s.generation, s.seq, s.next_id IS NOT NULL, s.turn
  FROM groups_member m LEFT JOIN groups_share s ON s.group_id = m.group_id AND s.member_id = m.id
 WHERE m.id = ANY (%s)
 ORDER BY s.share
"""
LOCK_GROUP = "SELECT FROM groups_group WHERE id = %s FOR NO KEY UPDATE"
LEAVE = "DELETE FROM groups_member WHERE id = %s AND group_id = %s RETURNING name"


class SettledShare(NamedTuple):
    """A share's new cursor, or the last seq that was sent of a share that is to move (sql/functions/groups_settle.sql)."""

    group_id: int
    share: int
    generation: int
    seq: int | None
    turn: int | None
    drain_seq: int | None


class OwnedShare(NamedTuple):
    """A share of a session. `is_revoked`: the share is to move."""

    share: int
    generation: int
    seq: int
    is_revoked: bool
    turn: int


class Looked(NamedTuple):
    """The state of a session. `until`: the session cannot time out earlier, by the monotonic clock of this process."""

    until: float
    shares: list[OwnedShare]


def settle(rows: Sequence[SettledShare]) -> Script[None]:
    if rows:
        yield Statement(SETTLE, tuple(list(column) for column in zip(*rows, strict=True)))


def refresh(sessions: list[int]) -> Script[None]:
    """Notes that these sessions are alive."""
    if sessions:
        yield Statement(REFRESH, (sessions,))


def look(sessions: list[int], group_ids: list[int]) -> Script[dict[int, Looked]]:
    """Ends the sessions of these groups that timed out. Returns the state of each of our sessions that has not ended."""
    timed_out = yield Statement(TIMED_OUT, (group_ids,), quick=True)
    for (group_id,) in timed_out:
        yield Statement(ASSIGN, (group_id,))
    # The time before the question. PostgreSQL computes the time that is left later, so the session ends later than we believe.
    asked = time.monotonic()
    rows = yield Statement(LOOK, (sessions,), quick=True)
    found: dict[int, Looked] = {}
    for session, left_ms, *owned in rows:
        looked = found.setdefault(session, Looked(asked + left_ms / 1000, []))
        if owned[0] is not None:
            looked.shares.append(OwnedShare(*owned))
    return found


def leave(topic: str, group: str, session: int) -> Script[str]:
    """Ends a session at once. Its shares start again at their cursors, at other members. Returns the member's name.

    Raises TopicNotFound, NotFound or SessionEnded.
    """
    found = yield from find(topic, group)
    return (yield from atomically(leave_locked(found.id, session), (topic, group)))


def leave_locked(group_id: int, session: int) -> Script[str]:
    if not (yield Statement(LOCK_GROUP, (group_id,))):
        raise NotFound("the group was deleted")
    rows = yield Statement(LEAVE, (session, group_id))
    if not rows:
        raise SessionEnded("the session has ended", session=session)
    yield Statement(ASSIGN, (group_id,))
    return str(rows[0][0])
