"""Sessions of PostgreSQL beside Django's, and the check that no two connections share one.

With shared sessions, no guarantee of this server holds.

Prepared statements, timeouts, and the locks of beat and of the service's start belong to a session. A pooler that gives sessions
to transactions (PgBouncer in transaction or statement mode) passes the session of one client to the next.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.conf import settings

from base.refusal import Refusal

LOOKS = 5  # several checks, because a busy pool can give two clients two sessions by chance
RETRY_SECONDS, SAY_SECONDS = 1.0, 60.0
# PostgreSQL answers, and refuses the login: only an operator can change that. libpq gives no code of these errors.
REFUSED = re.compile("authentication failed|does not exist|no such database|no pg_hba.conf entry")


def check_sessions() -> None:
    """Raises Refusal if two simultaneous connections share a session. Raises psycopg.OperationalError without a connection."""
    with connect(prepare_threshold=None) as first, connect(prepare_threshold=None) as second:
        for _ in range(LOOKS):
            if backend(first) == backend(second):
                raise Refusal(
                    "DATABASE_URL is a pooler that shares PostgreSQL's sessions: set its pool_mode to session, or use "
                    "PostgreSQL directly."
                )


def wait_for_sessions(say: Callable[[str], object], most: float = math.inf) -> None:
    """Runs check_sessions as soon as PostgreSQL answers. Calls `say` with the reason of the wait, at most once a minute.

    `most`: seconds. With this limit, a refused login ends the wait, too. Raises Refusal and psycopg.OperationalError.
    """
    begun, said = time.monotonic(), -math.inf
    while True:
        try:
            return check_sessions()
        except psycopg.OperationalError as error:
            now, reason = time.monotonic(), str(error).strip().splitlines()[0]
            if now - begun >= most or (most < math.inf and REFUSED.search(reason)):
                raise
            if now - said >= SAY_SECONDS:
                say(f"waiting for PostgreSQL, which does not answer: {reason}")
                said = now
        time.sleep(RETRY_SECONDS)


def connect(**more: Any) -> psycopg.Connection[Any]:
    """Opens a session with the timeouts of Django's connections. Raises psycopg.OperationalError."""
    options = {**settings.DATABASES["default"]["OPTIONS"], **more}
    return psycopg.connect(settings.DATABASE_URL, autocommit=True, **options)


def backend(connection: psycopg.Connection[Any]) -> int:
    row: tuple[int] | None = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return row[0]
