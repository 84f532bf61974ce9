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
    ts: int
    deliveries: int = 0
    node: str | None = None
    lease: str | None = None
    deadline: int | None = None
    error: str | None = None

    def is_in_flight(self, now: int) -> bool:
        return self.deadline is not None and self.deadline > now and self.node is not None

    def is_ready(self, now: int) -> bool:
        return self.deadline is None or self.deadline <= now


@dataclass
class Queue:
    max_deliveries: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)
    dead: list[Job] = field(default_factory=list)  # the jobs in the dead letter topic
    moved: int = 0  # to the dead letter topic, ever

    def append(self, seq: int, data: Any, now: int) -> None:
        self.jobs[seq] = Job(seq, data, now)

    def counts(self, now: int) -> tuple[int, int, int, int, int | None]:
        jobs = self.jobs.values()
        ready = [now - (job.ts if job.deadline is None else job.deadline) for job in jobs if job.is_ready(now)]
        in_flight = sum(job.is_in_flight(now) for job in jobs)
        return len(ready), in_flight, self.moved, len(jobs) - len(ready) - in_flight, max(ready, default=None)

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
            self.dead.append(self.jobs.pop(job.seq))
            self.moved += 1
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
