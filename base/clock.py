"""The time in API fields: integer milliseconds since the Unix epoch."""

import os
import time


class ThisProcess:
    """This process. `started` is the time of its start, by the monotonic clock (s).

    `ahead_ms`: of a worker, how far the clock of its machine is ahead of PostgreSQL's, which counts (store/server_clock.py).
    """

    started: float
    ahead_ms = 0

    def follow(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms

    def start(self) -> None:
        self.started = time.monotonic()


process = ThisProcess()
process.start()
os.register_at_fork(after_in_child=process.start)


def now_ms() -> int:
    return int(time.time() * 1000) - process.ahead_ms
