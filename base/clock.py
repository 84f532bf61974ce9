"""The time in API fields: integer milliseconds since the Unix epoch."""

import os
import time

started = time.monotonic()  # when this process started (s)


def _start() -> None:
    global started
    started = time.monotonic()


os.register_at_fork(after_in_child=_start)


def now_ms() -> int:
    return int(time.time() * 1000)
