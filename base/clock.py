"""The time in API fields: integer milliseconds since the Unix epoch."""

import os
import time


class ThisProcess:
    """This process. `started` is the time of its start, by the monotonic clock (s)."""

    started: float

    def start(self) -> None:
        self.started = time.monotonic()


process = ThisProcess()
process.start()
os.register_at_fork(after_in_child=process.start)


def now_ms() -> int:
    return int(time.time() * 1000)
