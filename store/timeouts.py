"""How long PostgreSQL lets the connections of a serving process take, wait for a lock, or rest in a transaction.

PostgreSQL itself keeps these times, so they also hold for a process that was stopped, or whose machine is gone. Migrations
and management commands have none: a person waits for them and may end them. Each time is a setting with its reason.
"""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings

_session = ""  # what each new connection of Django's runs in this process


def session(role: str, statement_ms: int, lock_ms: int = settings.TOPICS_LOCK_TIMEOUT_MS) -> str:
    """The statements that give a connection its times, and the name that pg_stat_activity shows. 0 is no limit."""
    return (
        f"SET application_name = 'topics {role} {os.getpid()}'; "
        f"SET statement_timeout = {statement_ms}; SET lock_timeout = {lock_ms}; "
        f"SET idle_in_transaction_session_timeout = {settings.TOPICS_IDLE_TRANSACTION_TIMEOUT_MS}"
    )


def serve(role: str, statement_ms: int) -> None:
    """From here on Django's connections of this process have limits."""
    global _session
    _session = session(role, statement_ms)


def limit(connection: Any, **_: Any) -> None:
    """On each new connection of Django's (topics/apps.py), after it has looked for a crash: recovering may take its time."""
    if _session:
        with connection.cursor() as cursor:
            cursor.execute(_session)
