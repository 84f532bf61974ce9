"""Periodic work of a web process, once a second, outside of requests. Each step is short. Skipping one run does no harm."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from django.db import connection

from base.slot import Slot
from store.database import translated

log = logging.getLogger(__name__)
PAUSE_SECONDS = 1.0
steps: Slot[Sequence[Callable[[], object]]] = Slot()
_thread: threading.Thread | None = None


def start() -> None:
    """Start this process's pulse, unless it runs."""
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=beat_forever, name="pulse", daemon=True)
        _thread.start()


def beat_forever() -> None:
    while True:
        time.sleep(PAUSE_SECONDS)
        beat()


def beat() -> None:
    for step in steps.value:
        try:
            step()
        except Exception as error:
            connection.close()
            if translated(error) is None:
                log.exception("a step of the pulse failed")
            # If PostgreSQL is not available, the step keeps its notes for the next beat.
