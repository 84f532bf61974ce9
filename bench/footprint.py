"""The memory and the connections to PostgreSQL of a whole instance, with PostgreSQL and Redis."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from bench.report import Row
from tests.instances import Instance

SETTLED_SECONDS = 10.0  # after a start, until all processes rest
MOST_MIB = 350
CLIENTS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def idle(instance: Instance) -> Iterator[Row]:
    time.sleep(SETTLED_SECONDS)
    used = unique(instance.pids()) / 2**20
    yield Row("idle: unique memory", f"≤ {MOST_MIB} MiB", f"{used:.0f} MiB", ok=used <= MOST_MIB)
    yield backends(instance, "idle: connections to PostgreSQL", 24)


def backends(instance: Instance, work: str, most: int) -> Row:
    with instance.connect() as database:
        (count,) = database.execute(CLIENTS).fetchone() or (0,)
    return Row(work, f"≤ {most}", str(count), ok=count <= most)


def unique(pids: list[int]) -> int:
    """Returns the bytes that each of these processes shares with no other, added up."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # the process has just ended
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Private_Clean:", "Private_Dirty:")):
                    total += int(line.split()[1]) * 1024
    return total
