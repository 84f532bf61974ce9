"""A progress bar on standard error. It appears only on a terminal, and changes at most ten times a second."""

from __future__ import annotations

import sys
import time

from shell.streams import messages

WIDTH = 24
PAUSE_SECONDS = 0.1


class Progress:
    """A progress bar. `size` is the size of the whole work, or 0 if it is unknown."""

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self.shown = sys.stderr.isatty()
        self.started = time.monotonic()
        self.next = self.started

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self.started, 1e-9)

    def tick(self, done: int, records: int) -> None:
        """Updates the bar: `done` of `size` are done, with so many records."""
        if self.shown and time.monotonic() >= self.next:
            self.next = time.monotonic() + PAUSE_SECONDS
            with messages() as err:
                err.write("\r\033[K" + self.bar(done, records))

    def bar(self, done: int, records: int) -> str:
        told = f"{records:,} records  {records / self.seconds:,.0f}/s"
        if not self.size:
            return told
        part = min(done / self.size, 1.0)
        left = self.seconds * (1 - part) / part if part else 0.0
        filled = round(WIDTH * part)
        return f"{part:4.0%} {'█' * filled}{'░' * (WIDTH - filled)} {told}  {left:.0f} s left"

    def clear(self) -> None:
        if self.shown:
            with messages() as err:
                err.write("\r\033[K")
