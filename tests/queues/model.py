"""A queue in memory: a list of jobs, searched from one end to the other at each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any


@dataclass
class Job:
    """A job. `deadline`: None if nobody ever claimed it. `node`: None if it was given back."""

    seq: int
    data: Any
    deliveries: int = 0
    node: str | None = None
    lease: str | None = None
    deadline: int | None = None

    def is_in_flight(self, now: int) -> bool:
        return self.deadline is not None and self.deadline > now and self.node is not None

    def is_ready(self, now: int) -> bool:
        return self.deadline is None or self.deadline <= now


@dataclass
class Queue:
    max_deliveries: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)
    dead: list[tuple[int, int, Any]] = field(default_factory=list)  # seq, deliveries, data

    def append(self, seq: int, data: Any) -> None:
        self.jobs[seq] = Job(seq, data)

    def counts(self, now: int) -> tuple[int, int, int]:
        jobs = self.jobs.values()
        return sum(job.is_ready(now) for job in jobs), sum(job.is_in_flight(now) for job in jobs), len(self.dead)

    def claim(self, most: int, now: int, most_bytes: int) -> list[Job]:
        """Returns the jobs that the next claim gets, and moves jobs that were delivered too often."""
        ended = [job for job in self.jobs.values() if job.deadline is not None and job.deadline <= now]
        found: list[Job] = []
        spent: list[Job] = []
        for job in sorted(ended, key=lambda job: (job.deadline, job.seq)):
            if len(found) == most:
                break
            (spent if self.max_deliveries and job.deliveries >= self.max_deliveries else found).append(job)
        for job in sorted(spent, key=lambda job: job.seq):
            self.dead.append((job.seq, job.deliveries, job.data))
            del self.jobs[job.seq]
        new = sorted((job for job in self.jobs.values() if job.deadline is None), key=lambda job: job.seq)
        found += new[: most - len(found)]
        found.sort(key=lambda job: job.seq)
        sizes = accumulate(len(str(job.data)) for job in found)
        return [
            job for place, (job, size) in enumerate(zip(found, sizes, strict=True)) if size <= most_bytes or not place
        ]

    def held(self, node: str, seqs: list[int], leases: list[str | None]) -> list[Job]:
        """Returns the jobs that a call on leases is about."""
        named = zip(seqs, leases, strict=True)
        found = [(self.jobs.get(seq), lease) for seq, lease in named]
        return [job for job, lease in found if job is not None and job.node == node and lease in (None, job.lease)]
