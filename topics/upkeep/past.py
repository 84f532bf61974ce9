"""The clock of the upkeep, which deletes old rows. If PostgreSQL's clock jumps ahead, the tables must not become empty.

Workers go by PostgreSQL's clock (store/server_clock.py). If it is more than a day later than at the last upkeep, the workers were
off, or the clock is wrong. So each worker process waits for a minute, by the monotonic clock of its machine, which no step
changes. Meanwhile it goes by the time of the last upkeep. If PostgreSQL's clock goes back within the minute, nothing was deleted.

TTLs do not wait, because reads hide expired records by the clock alone.
"""

from __future__ import annotations

import logging
import time

from base.clock import now_ms
from store.database import prepared

log = logging.getLogger(__name__)
JUMP_MS = 86_400_000
WAIT_SECONDS = 60.0  # until a time after a jump counts
NOTE_SECONDS = 60.0  # between two notes of a process

LAST = "SELECT ts FROM topics_upkeeptime WHERE id = 1"
NOTE = "INSERT INTO topics_upkeeptime (id, ts) VALUES (1, %s) ON CONFLICT (id) DO UPDATE SET ts = excluded.ts"


class UpkeepClock:
    """The clock of one process. All processes share the last time that one of them went by, and note it once a minute."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.noted = -NOTE_SECONDS  # by the monotonic clock
        self.jump: tuple[int, float] | None = None  # the last time before a jump, and when this process saw the jump

    def now_ms(self) -> int:
        """Returns PostgreSQL's time, or within a minute after a jump the time of the last upkeep. Raises NotReady."""
        now = now_ms()
        if self.last is None or now - self.last > JUMP_MS:
            noted = prepared(LAST, ())  # another process can have noted a later time
            self.last = int(noted[0][0]) if noted else now
            if now - self.last > JUMP_MS and not self.has_waited(self.last, now):
                return self.last
        if self.jump or time.monotonic() - self.noted >= NOTE_SECONDS:
            prepared(NOTE, (now,))
            self.jump, self.noted = None, time.monotonic()
        self.last = now
        return now

    def has_waited(self, last: int, now: int) -> bool:
        # Another last time means that the clock was right in between, so this is another jump.
        if self.jump is None or self.jump[0] != last:
            self.jump = last, time.monotonic()
            log.warning(
                "PostgreSQL's clock is %d h later than at the last upkeep: nothing is deleted by its age for a minute",
                (now - last) // 3_600_000,
            )
        return time.monotonic() - self.jump[1] >= WAIT_SECONDS


upkeep_ms = UpkeepClock().now_ms
