"""Whether each connection has a session of PostgreSQL of its own, without which nothing here keeps its promises.

Prepared statements, limits of time, and the locks by which beat and the start of a service know of each other are a session's. A
pooler that gives sessions to transactions (PgBouncer in transaction or statement mode) hands one client's to the next.
"""

from __future__ import annotations

import psycopg
from django.conf import settings

from base.refusal import Refusal

LOOKS = 5  # a busy pool may give two clients two sessions by chance


def check_sessions() -> None:
    """Raises Refusal where two connections that are open at once have one session, and psycopg.OperationalError."""
    with connect() as first, connect() as second:
        for _ in range(LOOKS):
            if backend(first) == backend(second):
                raise Refusal(
                    "DATABASE_URL leads to a pooler that shares PostgreSQL's sessions: set its pool_mode to session, or name "
                    "PostgreSQL itself."
                )


def connect() -> psycopg.Connection[tuple[int]]:
    return psycopg.connect(settings.DATABASE_URL, autocommit=True, prepare_threshold=None, connect_timeout=5)


def backend(connection: psycopg.Connection[tuple[int]]) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return row[0]
