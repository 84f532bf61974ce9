"""Throttles deliveries while publishers need the cores: queued events can wait, publishers cannot.

If publishers send event after event while processes wait for a core, deliveries of this worker query PostgreSQL one at a time.
After each query they pause for longer than the query took. Filling queues is throttled in the same way. If cores are free, as
on most machines at most times, deliveries do not wait.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TypeVar

from store.loop import Loop
from store.script import Script

T = TypeVar("T")
FLOOD = 1_000  # published events per second
SCARCE = 0.3  # share of the time in which some process waited for a core
LOOK_SECONDS = 0.25  # between two measurements
CALM_SECONDS = 0.5  # throttling ends this long after the last measurement of a flood. One quiet moment does not end it
PRESSURE = Path("/proc/pressure/cpu")  # Linux reports here how long processes have waited for a core
REST, MOST_REST_SECONDS = 8, 1.0  # length of a pause: REST times the length of the query, at most MOST_REST_SECONDS
REST_A_QUEUE = 0.0015  # s of pause per filled queue while cores are free, so that a hundred queues take larger steps
AT_ONCE = 4  # queries of deliveries at a time. A query that waits for its turn notices when a flood begins
CLOCK = getattr(
    time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC
)  # continues while this process or its machine is suspended


def clock() -> float:
    """Returns the time (s) by which leases are measured."""
    return time.clock_gettime(CLOCK)


class Throttle:
    """Detects whether publishers need the cores, and throttles the queries of deliveries meanwhile. Lives in an event loop."""

    def __init__(self, store: Loop) -> None:
        self.store = store
        self.heads: dict[int, int] = {}  # topic id: head, for topics with publishers
        self.published = 0  # events since the last measurement
        self.dense_until = self.rest_until = 0.0
        self.places, self.gate = asyncio.Semaphore(AT_ONCE), asyncio.Lock()

    @property
    def dense(self) -> bool:
        return clock() < self.dense_until

    def heard(self, topic_id: int, head: int) -> None:
        """Notes the new head of a topic with publishers."""
        self.published += max(head - self.heads.get(topic_id, head), 0)
        self.heads[topic_id] = head

    async def look_out(self) -> None:
        """Measures forever whether events flood in while cores are scarce."""
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
        """Returns how long (s) to pause after work that took `took` s. `queues`: the number of queues that the work filled."""
        if self.dense:
            return min(REST * took, MOST_REST_SECONDS)
        return min(REST * took, REST_A_QUEUE * queues)

    async def ask(self, script: Script[T]) -> tuple[T, float]:
        """Runs a script of a delivery. Returns the result, and the time (clock()) right before PostgreSQL was queried."""
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
    """Returns how long (s) processes of this machine have waited for a core. Without Linux's figure: clock(), as if always."""
    try:
        return int(PRESSURE.read_text().split("total=", 1)[1].split()[0]) / 1e6
    except (OSError, IndexError, ValueError):
        return clock()
