"""PostgreSQL's timeouts for connections of a serving process: for a statement, a lock, and an idle transaction.

PostgreSQL enforces these times, also for a process that was stopped or lost its machine. Management commands have no limits,
because a person waits for them and can end them. Only `migrate` limits its waits for locks, and tries again. Each time is a
setting with its reason.
"""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.db.backends.signals import connection_created


def session(role: str, statement_ms: int, lock_ms: int = settings.TOPICS_LOCK_TIMEOUT_MS) -> str:
    """Returns the statements that set a connection's timeouts and its name in pg_stat_activity. 0: no limit."""
    return (
        f"SET application_name = 'topics {role} {os.getpid()}'; "
        f"SET statement_timeout = {statement_ms}; SET lock_timeout = {lock_ms}; "
        f"SET idle_in_transaction_session_timeout = {settings.TOPICS_IDLE_TRANSACTION_TIMEOUT_MS}"
    )


def serve(role: str, statement_ms: int) -> None:
    """Gives new connections of Django in this process limits. Recovery from a crash of PostgreSQL runs before, without limits."""
    statements = session(role, statement_ms)

    def limit(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statements)

    connection_created.connect(limit, weak=False)
