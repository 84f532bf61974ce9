"""Notes about handlers in a table of this project, by the processes of `topics_consume`. The admin shows them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, close_old_connections, connections
from django.utils.timezone import now

from topics_client.django.handlers import Handler
from topics_client.django.models import HandlerState
from topics_client.jobs import shortened

log = logging.getLogger("topics_client.django")
BEAT_SECONDS = 10.0
ALIVE = timedelta(seconds=3 * BEAT_SECONDS)


def beat(handlers: Sequence[Handler], stopping: threading.Event) -> None:
    """Notes until the process stops that it runs these handlers."""
    while not stopping.is_set():
        for handler in handlers:
            note(handler, seen_at=now())
        stopping.wait(BEAT_SECONDS)
    connections.close_all()


def failed(handler: Handler, error: Exception) -> None:
    note(handler, failed_at=now(), error=shortened(f"{type(error).__name__}: {error}"))


def note(handler: Handler, **fields: Any) -> None:
    """Call it outside of transactions. If the project cannot store the note, the handler works on without it."""
    try:
        HandlerState.objects.update_or_create(name=handler.name, defaults=fields)
    except (DatabaseError, ImproperlyConfigured) as error:
        log.warning("The admin cannot show the state of %s: %s. Is the project migrated?", handler.name, error)
        close_old_connections()


def is_running(state: HandlerState | None) -> bool:
    """Whether a process runs the handler."""
    return state is not None and state.seen_at is not None and state.seen_at > now() - ALIVE
