"""Deliveries make room for publishers: what is queued can wait, and whoever publishes cannot.

Where publishers send event after event while processes wait for a core, deliveries of this worker ask PostgreSQL one at a time,
and rest for longer than it took; so does what fills the queues. Where there are cores enough, as on most machines at most times,
nobody waits.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TypeVar

from store.loop import Loop
from store.script import Script

T = TypeVar("T")
FLOOD = 1_000  # events a second that are published
SCARCE = 0.3  # of the time, in which somebody waited for a core
LOOK_SECONDS = 0.25  # between two looks at that
CALM_SECONDS = 0.5  # after the last look that found a flood: it does not end with a moment in which we heard of nothing
PRESSURE = Path("/proc/pressure/cpu")  # Linux tells there how long anybody has waited for a core
REST, MOST_REST_SECONDS = 8, 1.0  # times what it took, and no longer than that
REST_A_QUEUE = 0.0015  # s, after queues were filled while cores are free: a hundred of them take larger steps
AT_ONCE = 4  # questions to PostgreSQL at a time: who waits for his turn sees that a flood has begun
CLOCK = getattr(
    time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC
)  # goes on while this process, or its machine, stands still


def clock() -> float:
    """The time (s) that leases are counted by."""
    return time.clock_gettime(CLOCK)


class Crowd:
    """Whether publishers want the cores, and what deliveries ask of PostgreSQL meanwhile. Lives in an event loop."""

    def __init__(self, store: Loop) -> None:
        self.store = store
        self.heads: dict[int, int] = {}  # of topics that are published to
        self.published = 0  # events since the last look
        self.dense_until = self.rest_until = 0.0
        self.places, self.gate = asyncio.Semaphore(AT_ONCE), asyncio.Lock()

    @property
    def dense(self) -> bool:
        return clock() < self.dense_until

    def heard(self, topic_id: int, head: int) -> None:
        """A topic that is published to has this head now."""
        self.published += max(head - self.heads.get(topic_id, head), 0)
        self.heads[topic_id] = head

    async def look_out(self) -> None:
        """Look around, for ever."""
        waited, at = waited_seconds(), clock()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, waited = waited, waited_seconds()
            since, at = at, clock()
            flood = self.published > FLOOD * (at - since)
            if flood and waited - before >= SCARCE * (at - since):
                self.dense_until = at + CALM_SECONDS
            self.published = 0

    def rest_after(self, took: float, queues: int = 0) -> float:
        """How long (s) deliveries rest after something that took so long, where it was to fill queues: so many."""
        if self.dense:
            return min(REST * took, MOST_REST_SECONDS)
        return min(REST * took, REST_A_QUEUE * queues)

    async def ask(self, script: Script[T]) -> tuple[T, float]:
        """The result of a delivery's script, and when PostgreSQL was asked for it (clock())."""
        async with self.places:
            if not self.dense:
                asked = clock()
                return await self.store.drive(script), asked
        async with self.gate:
            await asyncio.sleep(max(self.rest_until - clock(), 0) if self.dense else 0)
            asked = clock()
            result = await self.store.drive(script)
            self.rest_until = clock() + self.rest_after(clock() - asked)
            return result, asked


def waited_seconds() -> float:
    """How long anybody on this machine has waited for a core; all the time, where nobody says."""
    try:
        return int(PRESSURE.read_text().split("total=", 1)[1].split()[0]) / 1e6
    except (OSError, IndexError, ValueError):
        return clock()
