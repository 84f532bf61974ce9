"""Locks that keep runs apart: advisory locks in the run's own PostgreSQL session, which end with the process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import psycopg

from base.errors import NotReady
from base.refusal import Refusal
from pipeline.models import Run

# A run never waits for another run. The lock's key is a hash of the work's name (`number`).
TAKE = {
    False: "SELECT pg_try_advisory_lock(7200, %s)",
    True: "SELECT pg_try_advisory_lock_shared(7200, %s)",
}
RELEASE = {
    False: "SELECT pg_advisory_unlock(7200, %s)",
    True: "SELECT pg_advisory_unlock_shared(7200, %s)",
}
# A run's session holds the run's own lock (7202) until the process exits.
HOLDER = """
SELECT alive.objid
  FROM pg_locks turn JOIN pg_locks alive USING (pid, locktype, database, objsubid)
 WHERE locktype = 'advisory' AND objsubid = 2 AND turn.granted AND alive.granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND turn.classid = 7200 AND turn.objid::bigint = %s AND alive.classid = 7202
 LIMIT 1
"""


class Turn:
    """A run's lock on a piece of work. The lock ends with the run's session."""

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        self.session = session

    def check(self) -> None:
        """Raises NotReady if the session ended. The lock ended with the session, so another run may have begun."""
        try:
            self.session.execute("SELECT")
        except psycopg.Error as error:
            raise NotReady("the connection to PostgreSQL ended: run the same command again to continue") from error


@contextmanager
def turn(session: psycopg.Connection[Any], what: str, shared: bool = False) -> Iterator[Turn]:
    """Holds the lock on `what`, alone or shared. Raises Refusal with the name of the run that holds the lock."""
    key = number(what)
    if not taken(session, key, shared):
        in_the_way = holder(session, key)
        # A run that ended between the two checks does not block this run.
        if in_the_way or not taken(session, key, shared):
            other = in_the_way or "another session of PostgreSQL"
            raise Refusal(f"{other} works at {what}: wait until it has ended, or stop it.")
    try:
        yield Turn(session)
    finally:
        with suppress(psycopg.Error):  # a closed session has released the lock
            session.execute(RELEASE[shared], [key])


def taken(session: psycopg.Connection[Any], key: int, shared: bool) -> bool:
    row = session.execute(TAKE[shared], [key]).fetchone()
    return bool(row and row[0])


def number(what: str) -> int:
    """Returns the key of the advisory lock. A collision of keys only delays a run that could have run."""
    return int.from_bytes(hashlib.sha256(what.encode()).digest()[:4]) >> 1


def holder(session: psycopg.Connection[Any], key: int) -> str | None:
    """Returns a description of the run that holds the lock, or None."""
    row = session.execute(HOLDER, [key]).fetchone()
    run = Run.objects.filter(pk=row[0]).first() if row else None
    if run is None:
        return None
    return f"run {run.pk} ({run.job}, since {datetime.fromtimestamp(run.started_ts / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC)"
