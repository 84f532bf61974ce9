"""The time as the wire tells it: integer milliseconds since the Unix epoch."""

import time

STARTED = time.monotonic()  # of this process


def now_ms() -> int:
    return int(time.time() * 1000)
