"""A lock that shows whether a web process serves this database. Each connection of a web process holds the lock of PostgreSQL.

Some work belongs to the start of the whole service, for example emptying the `ephemeral` topics (topics/upkeep/recovery.py). With
the lock, a second host does not repeat this work when it joins. It is a lock and not a row, because a lock always ends with its
connection.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.backends.signals import connection_created

LOCK = 7300  # advisory lock of PostgreSQL: shared by all serving connections, exclusive for the first start
HOLD = f"SELECT pg_advisory_lock_shared({LOCK})"
TRY_ALONE = f"SELECT pg_try_advisory_lock({LOCK})"
RELEASE = f"SELECT pg_advisory_unlock({LOCK})"
# PostgreSQL needs milliseconds to notice that a process was killed. Until then the lock of the process remains.
GONE_SECONDS = 1.0


class Serving:
    """Whether each new connection of this process holds the lock."""

    def __init__(self) -> None:
        self.holds = False

    def announce(self) -> None:
        """Let each new connection of this process hold the lock, both the event loop's and Django's."""
        self.holds = True
        connection_created.connect(hold)


process = Serving()
announce = process.announce


def hold(connection: Any, **_: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(HOLD)


@contextmanager
def alone() -> Iterator[bool]:
    """Yields whether no process serves the database. If True, new connections of web processes wait until the block ends.

    This function never queues for the lock, because all later connections would wait behind it.
    """
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
