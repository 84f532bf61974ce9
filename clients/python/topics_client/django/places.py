"""Where topics is: in a database of this project, or behind a URL."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from topics_client.client import Topics


def database() -> str | None:
    """Returns the alias of the database that topics is in, or None if topics is elsewhere."""
    alias: str | None = getattr(settings, "TOPICS_DATABASE", DEFAULT_DB_ALIAS)
    return alias


def connection() -> Any:
    """Returns this thread's connection to the database that topics is in."""
    alias = database()
    if alias is None:
        raise RuntimeError("topics is not in a database of this project: set TOPICS_DATABASE, or append over HTTP")
    return connections[alias]


def server(**options: Any) -> Topics:
    """Returns a client of the server. `options`: as in Topics. Raises ValueError if no URL is known."""
    return Topics(getattr(settings, "TOPICS_URL", None), getattr(settings, "TOPICS_KEY", None), **options)
