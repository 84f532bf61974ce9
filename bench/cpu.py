"""The CPU time of an instance's processes under load."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tests.instances import Instance

TICK = 1_000_000 / os.sysconf("SC_CLK_TCK")  # µs


class Cpu:
    """CPU time of the web processes and of PostgreSQL."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    def now(self) -> tuple[float, float]:
        """Returns the CPU time so far (µs): of the web processes, and of PostgreSQL."""
        return used(self.instance.pids("topics_project.web")), used(postgres(self.instance))

    def each(self, before: tuple[float, float], calls: float) -> str:
        """Returns the CPU time of each call since `before`, in words. `calls`: the number of calls."""
        web, database = ((after - was) / calls for after, was in zip(self.now(), before, strict=True))
        return f"CPU {web:.0f} + {database:.0f} µs"


def used(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # the process has just ended
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total * TICK


def postgres(instance: Instance) -> list[int]:
    """Returns the process ids of the server and all its backends."""
    main = int((instance.data / "postgresql" / "postmaster.pid").read_text().splitlines()[0])
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return [main, *(pid for pid, parent in parents.items() if parent == main)]
