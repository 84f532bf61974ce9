"""Checks that each connection has its own session of PostgreSQL. With shared sessions, no guarantee of this server holds.

Prepared statements, timeouts, and the locks of beat and of the service's start belong to a session. A pooler that gives sessions
to transactions (PgBouncer in transaction or statement mode) passes the session of one client to the next.
"""

from __future__ import annotations

import psycopg
from django.conf import settings

from base.refusal import Refusal

LOOKS = 5  # several checks, because a busy pool can give two clients two sessions by chance


def check_sessions() -> None:
    """Raises Refusal if two simultaneous connections share a session. Raises psycopg.OperationalError without a connection."""
    with connect() as first, connect() as second:
        for _ in range(LOOKS):
            if backend(first) == backend(second):
                raise Refusal(
                    "DATABASE_URL is a pooler that shares PostgreSQL's sessions: set its pool_mode to session, or use "
                    "PostgreSQL directly."
                )


def connect() -> psycopg.Connection[tuple[int]]:
    return psycopg.connect(settings.DATABASE_URL, autocommit=True, prepare_threshold=None, connect_timeout=5)


def backend(connection: psycopg.Connection[tuple[int]]) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return row[0]
