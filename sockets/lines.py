"""The order of the commands of one socket.

Publishes to one topic are stored in the order in which they arrived, although many are in flight. Each topic has a line. A wave
of a line starts at one moment, and reaches the coalescer (store/coalesce.py) in order. The next wave starts when the wave has
ended, so no append can overtake another on its way. A wave has only appends of one kind, because each kind has its own queue in
the coalescer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable


class CommandLine:
    """Commands that keep their order. The caller calls `ended` at the end of each started command."""

    __slots__ = ("is_due", "loop", "running", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: deque[tuple[Hashable, Callable[[], None]]] = deque()
        self.running = 0
        self.is_due = False

    def add(self, kind: Hashable, start: Callable[[], None]) -> None:
        """Adds a command. A wave can have several commands of the same `kind`. A command without a kind has its own wave."""
        self.waiting.append((kind, start))
        self.start_soon()

    def ended(self) -> None:
        self.running -= 1
        self.start_soon()

    @property
    def is_empty(self) -> bool:
        return not self.running and not self.waiting

    def start_soon(self) -> None:
        """Starts the next wave after all commands that have already arrived are in the line."""
        if not self.running and self.waiting and not self.is_due:
            self.is_due = True
            self.loop.call_soon(self.start_wave)

    def start_wave(self) -> None:
        self.is_due = False
        kind, start = self.waiting.popleft()
        wave = [start]
        while kind is not None and self.waiting and self.waiting[0][0] == kind:
            wave.append(self.waiting.popleft()[1])
        self.running = len(wave)
        for start in wave:
            start()
