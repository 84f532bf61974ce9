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


class Pace:
    """The pace of a line that a process would repeat often: the first at once, and then one a minute."""

    def __init__(self) -> None:
        self.told = -TELL_SECONDS

    def is_due(self) -> bool:
        """Returns whether the line is to be written now. Then the next minute begins."""
        now = time.monotonic()
        if now - self.told < TELL_SECONDS:
            return False
        self.told = now
        return True


class Outage:
    def __init__(self, name: str, waiting: str) -> None:
        """`waiting`: a sentence about the work that stands still until the end."""
        self.name, self.waiting = name, waiting
        self.began: float | None = None
        self.failed = 0.0
        self.pace = Pace()

    def note(self, cause: object) -> None:
        now = time.monotonic()
        self.failed = now
        text = str(cause).strip().partition("\n")[0].rstrip(".")
        began = self.began
        if began is None:
            self.began, self.pace = now, Pace()
        if not self.pace.is_due():
            return
        if began is None:
            log.warning("%s does not work: %s. %s", self.name, text, self.waiting)
        else:
            log.warning("%s has not worked for %.0f s: %s", self.name, now - began, text)

    def over(self) -> None:
        """Called for each success, because one can also come in the middle of an outage."""
        now, began = time.monotonic(), self.began
        if began is not None and now - self.failed >= QUIET_SECONDS:
            self.began = None
            log.warning("%s works again, after %.0f s", self.name, self.failed - began)


postgresql = Outage("PostgreSQL", "All work waits for it")
redis = Outage("Redis", "Routers, schedules and callbacks wait for it. Appends and reads work")
