"""Whether anybody serves this database: each connection of a web process holds a lock of PostgreSQL for as long as it lives.

What belongs to the start of a service as a whole, as emptying the `ephemeral` topics does (topics/upkeep/recovery.py), is by this
not done again when a second host joins. A lock and no row: it ends with its connection, however that ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.backends.signals import connection_created

from store.connection import on_connect

LOCK = 7300  # of PostgreSQL's advisory locks: shared by all who serve, taken alone by who begins
HOLD = f"SELECT pg_advisory_lock_shared({LOCK})"
TRY_ALONE = f"SELECT pg_try_advisory_lock({LOCK})"
RELEASE = f"SELECT pg_advisory_unlock({LOCK})"
# A process that was just killed is gone before PostgreSQL has noticed, which takes it milliseconds.
GONE_SECONDS = 1.0


def announce() -> None:
    """From here on each connection that this process opens, its event loop's and Django's, says that we serve."""
    on_connect.append(HOLD)
    connection_created.connect(hold)


def hold(connection: Any, **_: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(HOLD)


@contextmanager
def alone() -> Iterator[bool]:
    """Whether nobody serves the database. If so, nobody begins to before the block ends: new connections of web processes
    wait for it. It never waits in line for the lock itself, since those who come behind would wait with it."""
    deadline = time.monotonic() + GONE_SECONDS
    with connection.cursor() as cursor:
        while not (held := _value(cursor, TRY_ALONE)) and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            yield held
        finally:
            if held:
                cursor.execute(RELEASE)


def _value(cursor: Any, statement: str) -> bool:
    cursor.execute(statement)
    return bool(cursor.fetchone()[0])
