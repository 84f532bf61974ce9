"""What each connection sets before anything else: the code relies on it, and a role, a database or `postgresql.conf` can differ.

Limits of time are off, because recovery from a crash and commands have none. A serving process then sets its own (timeouts.py).
"""

from __future__ import annotations

from typing import Any

RELIED_ON = """
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET DateStyle = 'ISO, MDY';
SET IntervalStyle = postgres;
SET TimeZone = 'UTC';
SET bytea_output = hex;
SET standard_conforming_strings = on;
SET array_nulls = on;
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET idle_session_timeout = 0
"""


def begin(connection: Any, **_: Any) -> None:
    """Runs first on each new connection of Django (topics_project/wiring.py). An event loop's runs RELIED_ON itself
    (connection.py)."""
    with connection.cursor() as cursor:
        cursor.execute(RELIED_ON)
