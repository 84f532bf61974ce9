"""Periodic work of a web process, once a second, outside of requests. Each step is short. Skipping one run does no harm."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from django.db import connection

from base.slot import Slot
from store.database import translated
from store.threads import quick

log = logging.getLogger(__name__)
PAUSE_SECONDS = 1.0
Step = Callable[[], object]
steps: Slot[Sequence[Step]] = Slot()  # on a connection to PostgreSQL that other short work uses, too
looks: Slot[Sequence[Step]] = Slot()  # may wait for Redis, so they must not hold up that work


class Pulse:
    """The thread of this process's pulse."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the pulse, unless it runs."""
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=beat_forever, name="pulse", daemon=True)
            self.thread.start()


process = Pulse()
start = process.start


def beat_forever() -> None:
    while True:
        time.sleep(PAUSE_SECONDS)
        perform(looks.value)
        quick.do(beat)


def beat() -> None:
    perform(steps.value)


def perform(steps: Sequence[Step]) -> None:
    for step in steps:
        try:
            step()
        except Exception as error:
            connection.close()
            if translated(error) is None:
                log.exception("A step of the periodic work failed. The server retries")
            # If PostgreSQL is not available, the step keeps its notes for the next beat.
