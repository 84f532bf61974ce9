"""Deliveries make room for publishers: what is queued can wait, and whoever publishes cannot.

Where publishers send event after event while processes wait for a core, deliveries of this worker ask PostgreSQL one at a time,
and rest for longer than it took. Where there are cores enough, as on most machines at most times, nobody waits.
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
PRESSURE = Path("/proc/pressure/cpu")  # Linux tells there how long anybody has waited for a core
REST, MOST_REST_SECONDS = 8, 0.3  # times what it took, and no longer than that
CLOCK = getattr(
    time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC
)  # goes on while this process, or its machine, stands still


def clock() -> float:
    """The time (s) that leases are counted by."""
    return time.clock_gettime(CLOCK)


def rest_after(took: float) -> float:
    return min(REST * took, MOST_REST_SECONDS)


class Crowd:
    """Whether publishers want the cores, and what deliveries ask of PostgreSQL meanwhile. Lives in an event loop."""

    def __init__(self, store: Loop) -> None:
        self.store = store
        self.heads: dict[int, int] = {}  # of topics that are published to
        self.published = 0  # events since the last look
        self.dense = False
        self.gate = asyncio.Lock()

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
            self.dense = flood and waited - before >= SCARCE * (at - since)
            self.published = 0

    async def ask(self, script: Script[T]) -> tuple[T, float]:
        """The result of a delivery's script, and when PostgreSQL was asked for it (clock())."""
        if not self.dense:
            asked = clock()
            return await self.store.drive(script), asked
        async with self.gate:
            asked = clock()
            result = await self.store.drive(script)
            await asyncio.sleep(rest_after(clock() - asked) if self.dense else 0)
            return result, asked


def waited_seconds() -> float:
    """How long anybody on this machine has waited for a core; all the time, where nobody says."""
    try:
        return int(PRESSURE.read_text().split("total=", 1)[1].split()[0]) / 1e6
    except (OSError, IndexError, ValueError):
        return clock()
