"""The time as the wire tells it: integer milliseconds since the Unix epoch."""

import os
import time

started = time.monotonic()  # of this process


def _start() -> None:
    global started
    started = time.monotonic()


os.register_at_fork(after_in_child=_start)


def now_ms() -> int:
    return int(time.time() * 1000)
