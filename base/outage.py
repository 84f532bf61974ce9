"""An outage of PostgreSQL or Redis in the log of a process: a line when it begins, one a minute, and one when it ends.

Many parts of a process notice an outage, each of them often. So they only note it here. No lock is held, because a fork could
inherit it: two threads that note the same outage at the same moment write two lines.
"""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)
TELL_SECONDS = 60.0
QUIET_SECONDS = 5.0  # without a failure, before an outage is over: a full Redis still answers reads meanwhile


class Outage:
    def __init__(self, name: str, waiting: str) -> None:
        """`waiting`: a sentence about the work that stands still until the end."""
        self.name, self.waiting = name, waiting
        self.began: float | None = None
        self.failed = self.told = 0.0

    def note(self, cause: object) -> None:
        now = time.monotonic()
        self.failed = now
        text = str(cause).strip().partition("\n")[0].rstrip(".")
        if self.began is None:
            self.began = self.told = now
            log.warning("%s does not work: %s. %s", self.name, text, self.waiting)
        elif now - self.told >= TELL_SECONDS:
            self.told = now
            log.warning("%s has not worked for %.0f s: %s", self.name, now - self.began, text)

    def over(self) -> None:
        """Called for each success, because one can also come in the middle of an outage."""
        now, began = time.monotonic(), self.began
        if began is not None and now - self.failed >= QUIET_SECONDS:
            self.began = None
            log.warning("%s works again, after %.0f s", self.name, self.failed - began)


postgresql = Outage("PostgreSQL", "All work waits for it")
redis = Outage("Redis", "Routers, schedules and callbacks wait for it. Appends and reads work")
