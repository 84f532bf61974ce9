"""PostgreSQL's clock, by which workers judge what is due and what is old, so that the clock of their machine does not matter."""

from __future__ import annotations

import time

from base import clock
from store.database import prepared

NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
LOOK_SECONDS = 1.0
NEAR_MS = 100  # a smaller difference changes nothing, so that the time of a process does not jump with each look


class ServerClock:
    """The time of this process, after the first call of follow()."""

    def __init__(self) -> None:
        self.looked = -LOOK_SECONDS

    def follow(self) -> None:
        """Makes now_ms() of this process PostgreSQL's time. Raises NotReady."""
        if time.monotonic() - self.looked < LOOK_SECONDS:
            return
        ahead_ms = int(time.time() * 1000) - now_ms()
        if abs(ahead_ms - clock.process.ahead_ms) > NEAR_MS:
            clock.process.follow(ahead_ms)
        self.looked = time.monotonic()


follow = ServerClock().follow


def now_ms() -> int:
    """Returns PostgreSQL's time, in ms since the Unix epoch. Raises NotReady."""
    return int(prepared(NOW, ())[0][0])
