"""The jobs that a worker holds, and the scripts that get and settle them. worker.py has the threads and the tasks."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from topics_client import calls
from topics_client.codec import Codec
from topics_client.errors import TopicsError
from topics_client.records import Job
from topics_client.script import Bell, Script, Until, backoff

T = TypeVar("T")
log = logging.getLogger("topics_client.worker")
WAIT_MS = 5_000  # of a claim: a worker that ends waits for its last claim
MOST_JOBS = 1_000  # of a call
MOST_ERROR_BYTES = 2_048  # of a nack's error
AHEAD_SECONDS = 0.1  # a worker claims the jobs ahead that it does in this time
IDLE_SECONDS = 1.0  # between claims that return nothing at once, as those of a server that is stopping do


class Retry(Exception):
    """A handler raises this to give its job back. `delay_ms`: when the job is ready again. None: the delay of any other error."""

    def __init__(self, error: str = "", *, delay_ms: int | None = None) -> None:
        super().__init__(error)
        self.error, self.delay_ms = error, delay_ms


class Outcome(NamedTuple):
    """The outcome of a job. `failure`: the delay in ms and the error of a nack, or None for an ack."""

    job: Job[Any]
    failure: tuple[int, str | None] | None


class Policy(NamedTuple):
    """How a worker works. `retry_ms`: how long a job waits after an error, or a function of the job."""

    node: str
    concurrency: int
    lease_ms: int
    retry_ms: int | Callable[[Job[Any]], int]

    def checked(self) -> Policy:
        if not 1 <= self.concurrency <= MOST_JOBS:
            raise ValueError(f"invalid concurrency {self.concurrency}: expected 1 to {MOST_JOBS}")
        if not 100 <= self.lease_ms <= 86_400_000:
            raise ValueError(f"invalid lease_ms {self.lease_ms}: expected 100 to 86400000")
        return self

    def failure(self, job: Job[Any], error: BaseException, delay_ms: int | None = None) -> tuple[int, str | None]:
        """Returns the delay and the error of a nack. `delay_ms`: the delay, if the caller names one."""
        delay = error.delay_ms if delay_ms is None and isinstance(error, Retry) else delay_ms
        if delay is None:
            delay = self.retry_ms(job) if callable(self.retry_ms) else self.retry_ms
        text = error.error if isinstance(error, Retry) else f"{type(error).__name__}: {error}"
        return delay, shortened(text)


def doubled(job: Job[Any]) -> int:
    """Returns a delay that doubles with each delivery, from 1 s to 5 minutes."""
    return int(min(300_000, 1000 * 2.0 ** min(job.deliveries - 1, 20)))


def shortened(error: str) -> str:
    """Returns an error as a nack takes it: at most 2 KiB, without NUL."""
    return error.replace("\0", "").encode(errors="replace")[:MOST_ERROR_BYTES].decode(errors="ignore")


class Jobs(Generic[T]):
    """The jobs that a worker holds. Any thread can call it.

    `hands` take jobs from where `give` puts them, and end when they get None. The bell `room` wakes the claims, and `due` the
    keeper.
    """

    def __init__(
        self,
        topic: str,
        codec: Codec[T],
        policy: Policy,
        hands: int,
        give: Callable[[Job[T] | None], None],
        new_bell: Callable[[], Bell],
    ) -> None:
        self.topic, self.codec, self.policy, self.hands, self.give = topic, codec, policy, hands, give
        self.room, self.due = new_bell(), new_bell()
        self.lock = threading.Lock()
        self.held: dict[int, Job[T]] = {}
        self.renew_at: dict[int, float] = {}
        self.waiting: set[int] = set()  # the seqs of jobs that no hand has taken
        self.outcomes: list[Outcome] = []
        self.is_ending = self.is_over = False
        self.error: BaseException | None = None
        self.mean = math.inf  # seconds of a job

    # -- The hands ----------------------------------------------------------------------------------------------------

    def take(self, job: Job[T]) -> bool:
        """Notes that a hand begins a job. False: the job is no longer this worker's."""
        with self.lock:
            if job.seq not in self.waiting or self.held.get(job.seq) is not job:
                return False
            self.waiting.remove(job.seq)
            return True

    def settle(
        self,
        job: Job[T],
        error: BaseException | None = None,
        seconds: float | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """Notes that a job is done, or its error. A job that is settled stays so."""
        failure = None if error is None else self.policy.failure(job, error, delay_ms)
        with self.lock:
            if self.held.get(job.seq) is job:
                self._forget(job, failure)
            if seconds is not None:
                self.mean = seconds if self.mean == math.inf else 0.9 * self.mean + 0.1 * seconds
            has_room = self._room() > 0
        self.due.ring()
        if has_room:
            self.room.ring()

    def _forget(self, job: Job[T], failure: tuple[int, str | None] | None) -> None:
        del self.held[job.seq], self.renew_at[job.seq]
        self.waiting.discard(job.seq)
        self.outcomes.append(Outcome(job, failure))

    # -- The end ------------------------------------------------------------------------------------------------------

    def end(self, error: BaseException | None = None) -> None:
        """Claims no more, and gives the jobs back that no hand has taken."""
        with self.lock:
            self.error = self.error or error
            if self.is_ending:
                return
            self.is_ending = True
            for seq in list(self.waiting):
                self._forget(self.held[seq], (0, None))
        for _ in range(self.hands):
            self.give(None)
        self.room.ring()
        self.due.ring()

    def finish(self) -> None:
        """Lets the keeper end when it has sent all outcomes."""
        self.is_over = True
        self.due.ring()

    # -- Claims -------------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """Returns how many jobs to claim now: for each free hand, and ahead what all hands do in AHEAD_SECONDS."""
        if self.is_ending:
            return 0
        ahead = min(MOST_JOBS, int(self.hands * AHEAD_SECONDS / max(self.mean, 1e-6)))
        if len(self.held) >= self.hands and len(self.waiting) * 2 >= ahead:
            return 0
        return min(MOST_JOBS, self.hands + ahead - len(self.held))

    def claims(self) -> Script[None]:
        """Claims jobs until the worker ends, also while the server is away. Raises a refusal that stays, such as TopicNotFound.

        Each claim is sent once, because a pause between two tries has to end with the worker.
        """
        policy, tries = self.policy, 0
        while not self.is_ending:
            if not (room := self._room()):
                yield Until(self.room)
                continue
            began = time.monotonic()
            try:
                body = yield from calls.claim(self.topic, policy.node, room, policy.lease_ms, WAIT_MS, patience=0)
            except TopicsError as error:
                if not error.can_pass:
                    raise
                if not tries:
                    log.warning("The worker of %s tries again: %s", self.topic, error)
                yield from self.pause(max(error.retry_after or 0.0, backoff(tries)))
                tries += 1
                continue
            tries = 0
            jobs, refused = self.codec.jobs(body)
            self.add(jobs, refused, time.monotonic())
            if not jobs and not refused and not self.is_ending and time.monotonic() - began < IDLE_SECONDS:
                yield from self.pause(IDLE_SECONDS)

    def pause(self, seconds: float) -> Script[None]:
        """Waits, until the worker ends at most. The bell also rings for jobs that are done."""
        over = time.monotonic() + seconds
        while not self.is_ending and (left := over - time.monotonic()) > 0:
            yield Until(self.room, left)

    def add(self, jobs: Sequence[Job[T]], refused: Sequence[tuple[Job[Any], TopicsError]], now: float) -> None:
        """Gives claimed jobs to the hands, and back to the queue those that are invalid or too late."""
        with self.lock:
            for job, error in refused:
                self.outcomes.append(Outcome(job, self.policy.failure(job, error)))
            if self.is_ending:
                self.outcomes += [Outcome(job, (0, None)) for job in jobs]
                given: Sequence[Job[T]] = ()
            else:
                given = jobs
            for job in given:
                self.held[job.seq] = job
                self.renew_at[job.seq] = now + self.policy.lease_ms / 3000
                self.waiting.add(job.seq)
        for job in given:
            self.give(job)
        self.due.ring()

    # -- The keeper ---------------------------------------------------------------------------------------------------

    def keep(self) -> Script[None]:
        """Sends the outcomes and extends the leases, until `finish`. All outcomes of the time of a call go in the next call."""
        while True:
            outcomes, leases, seconds = self.take_due(time.monotonic())
            if leases:
                yield from self.attempt(self.extend(leases))
            if outcomes:
                yield from self.attempt(self.send(outcomes))
            elif not leases:
                if self.is_over:
                    return
                yield Until(self.due, seconds)

    def take_due(self, now: float) -> tuple[list[Outcome], dict[int, str], float | None]:
        """Returns outcomes to send, leases to extend now, and the seconds until the next lease is due."""
        with self.lock:
            outcomes, self.outcomes = self.outcomes[:MOST_JOBS], self.outcomes[MOST_JOBS:]
            first = next(iter(self.renew_at.values()), None)  # they are in the order of their times
            leases: dict[int, str] = {}
            if first is not None and first <= now:
                soon = now + self.policy.lease_ms / 6000
                due = [seq for seq, at in self.renew_at.items() if at <= soon][:MOST_JOBS]
                for seq in due:
                    leases[seq] = self.held[seq].lease_id
                    del self.renew_at[seq]
                    self.renew_at[seq] = now + self.policy.lease_ms / 3000
            return outcomes, leases, None if first is None else max(0, first - now)

    def attempt(self, script: Script[None]) -> Script[None]:
        """Runs a call. If it fails, the worker continues, and the jobs come back when their leases end."""
        try:
            yield from script
        except TopicsError as error:
            log.warning("Jobs of %s come back when their leases end: %s", self.topic, error)

    def extend(self, leases: dict[int, str]) -> Script[None]:
        skipped = yield from calls.settle("extend", self.topic, self.policy.node, leases, lease_ms=self.policy.lease_ms)
        with self.lock:
            lost = [seq for seq in skipped if seq in self.held and self.held[seq].lease_id == leases.get(seq)]
            for seq in lost:
                del self.held[seq], self.renew_at[seq]
                self.waiting.discard(seq)
        if lost:
            log.warning("The leases of %d jobs of %s have ended. Others can get the jobs", len(lost), self.topic)
            self.room.ring()

    def send(self, outcomes: Sequence[Outcome]) -> Script[None]:
        by_failure: dict[tuple[int, str | None] | None, dict[int, str]] = {}
        for job, failure in outcomes:
            by_failure.setdefault(failure, {})[job.seq] = job.lease_id
        for failure, leases in by_failure.items():
            if failure is None:
                yield from calls.settle("ack", self.topic, self.policy.node, leases)
            else:
                delay_ms, error = failure
                yield from calls.settle(
                    "nack", self.topic, self.policy.node, leases, delay_ms=delay_ms, error=error or None
                )
