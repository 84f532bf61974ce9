"""Counts events for the metrics of Routemaster's page (metrics.py).

Counts are added up in the process, and every few seconds in a table that all processes share. No decision depends on the counts.
A process that is killed loses its unwritten counts.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from base.errors import TopicsError
from store.loop import Loop, here
from store.script import Script, Statement, run

if TYPE_CHECKING:
    from push.delivery.batches import Taken

log = logging.getLogger(__name__)
FLUSH_SECONDS = 5.0
# Sorted, so that two processes that add to the same counters cannot deadlock.
ADD = """
INSERT INTO push_counter AS counter (name, tags, total, reported)
SELECT name, tags, total, 0 FROM unnest(%(names)s::text[], %(tags)s::text[], %(totals)s::float8[]) AS more (name, tags, total)
 ORDER BY name, tags
ON CONFLICT (name, tags) DO UPDATE SET total = counter.total + excluded.total
"""


class Counters:
    """The counts of this process since the last write. Any thread may count. `lock` guards `sums`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sums: dict[tuple[str, str], float] = {}
        self.has_started = False

    def add(self, name: str, tags: str, by: float = 1) -> None:
        with self.lock:
            self.sums[name, tags] = self.sums.get((name, tags), 0) + by

    def take(self) -> dict[tuple[str, str], float]:
        with self.lock:
            sums, self.sums = self.sums, {}
        return sums

    def note_start(self) -> None:
        """Counts the start of a web process, once in the process."""
        if not self.has_started:
            self.has_started = True
            self.add("process", "status:start,type:web")


process = Counters()
add, note_start = process.add, process.note_start


def delivered(id: int, taken: Taken, acknowledged: bool, duration_ms: float) -> None:
    """Counts one attempt to deliver a batch. The tag has the subscriber's id, because names can change before a read."""
    tags = f"status:{'success' if acknowledged else 'failure'},queue:{id}"
    add("delivery.events", tags, taken.events)
    add("delivery.batches", tags)
    add("delivery.time", tags, duration_ms)
    add("delivery.time2", tags, duration_ms**2)
    if taken.attempt == 1:
        add("latency.batches.count", f"queue:{id}")
        add("latency.batches.first_attempt", f"queue:{id}", taken.age_ms or 0)
    if acknowledged:
        add("latency.batches.last_attempt", f"queue:{id}", taken.age_ms or 0)
        add("events.removed", f"queue:{id}", taken.events)


async def note_stop() -> None:
    """Counts the end of a web process (topics_project/serve.py)."""
    add("process", "status:stop,type:web")
    await flush_soon(here())


def write() -> Script[None]:
    """Adds this process's counts to the table. If the write fails, the counts stay for the next write."""
    sums = process.take()
    if not sums:
        return
    try:
        names, tags = [name for name, _ in sums], [tag for _, tag in sums]
        yield Statement(ADD, {"names": names, "tags": tags, "totals": list(sums.values())})
    except TopicsError:
        for (name, tag), by in sums.items():
            add(name, tag, by)


def flush() -> None:
    """Calls write(), from a thread of a web process."""
    run(write())


async def flush_soon(store: Loop) -> None:
    await store.drive(write())


async def flush_forever(store: Loop) -> None:
    """Writes the counts every few seconds, also after a failure, for example without a thread to look up PostgreSQL's host."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        try:
            await flush_soon(store)
        except Exception:
            log.exception("The counts of a few seconds were lost")
