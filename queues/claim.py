"""Claims: a node gets jobs under a lease (docs/queues.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from base.errors import NotReady, TopicNotFound
from base.per_loop import PerLoop
from http1.hang_up import on_hang_up
from queues.dead import bury
from queues.leases import LeaseStep, in_queue
from store.codec import Rows
from store.script import Pause, Script, Statement
from topics.cache import CachedTopic
from topics.read.diff import MAX_BYTES
from topics.sealed import IS_CURRENT

CLAIM = "SELECT n, seq, job FROM queue_claim(%s, %s, %s, %s, %s, %s, %s::text[], %s::int[], %s::bigint[], %s, %s)"
MOST_JOBS = 1_000  # of one claim


class Claimed(NamedTuple):
    """The jobs of one claim as JSON, in order of seq, with their seqs, the number of ready jobs, and the jobs to move away.

    `most_jobs`: the jobs that the claim could get. It is lower than the claim's if MAX_BYTES left jobs in the queue.
    """

    jobs: list[str]
    seqs: list[int]
    most_jobs: int
    ready: int
    spent: list[int]


class ClaimWindow(Pause):
    """Waits until the window of the queue ends. The first claim of an event loop opens a window of `claim_jitter_ms`.

    All claims of the window continue in the same turn of the event loop. So they share a statement, which deals the jobs evenly.
    """

    def __init__(self, topic: CachedTopic) -> None:
        self.topic = topic

    async def over(self) -> None:
        open_windows = windows.here()
        end = open_windows.get(self.topic.id)
        if end is None:
            loop = asyncio.get_running_loop()
            end = open_windows[self.topic.id] = loop.create_future()
            loop.call_later(self.topic.claim_jitter_ms / 1000, close, open_windows, self.topic.id)
        gone = asyncio.get_running_loop().create_future()
        with on_hang_up(gone.cancel):
            await asyncio.wait(
                (end, gone), return_when=asyncio.FIRST_COMPLETED
            )  # leaves the window to the other claims
        if gone.done():
            raise NotReady("the client has ended its side of the connection, so it gets no jobs: claim again")


def close(open_windows: dict[int, asyncio.Future[None]], topic_id: int) -> None:
    open_windows.pop(topic_id).set_result(None)


windows: PerLoop[dict[int, asyncio.Future[None]]] = PerLoop(dict)


class Claim(LeaseStep[Claimed]):
    """A claim of at most `most_jobs` jobs for a node, for `lease_ms`."""

    def __init__(self, topic: CachedTopic, node: str, most_jobs: int, lease_ms: int, *args: int | None) -> None:
        super().__init__(topic, *args)
        self.node, self.weight, self.lease_ms = node, most_jobs, lease_ms

    @classmethod
    def statement(cls, known: tuple[Any, ...], batch: Sequence[Self]) -> Statement:
        topic = batch[0].topic
        deliveries = topic.max_deliveries if topic.max_deliveries and topic.dead_letter else None
        nodes, maxes = [each.node for each in batch], [each.weight for each in batch]
        lease_ms = [each.lease_ms for each in batch]
        return Statement(CLAIM, (*known, deliveries, nodes, maxes, lease_ms, topic.claim_jitter_ms > 0, MAX_BYTES))

    @classmethod
    def told(cls, batch: Sequence[Self], rows: Rows) -> list[Claimed]:
        jobs: list[list[str]] = [[] for _ in batch]
        seqs: list[list[int]] = [[] for _ in batch]
        spent: list[int] = []
        ready, is_cut = 0, False
        for n, seq, job in rows:
            if n > 0:
                jobs[n - 1].append(job)
                seqs[n - 1].append(seq)
            elif n == 0:
                ready, is_cut = seq, job is not None
            else:
                spent.append(seq)
        # One of the claims moves the jobs that were delivered too often.
        mosts = [len(jobs[n]) if is_cut else each.weight for n, each in enumerate(batch)]
        return [Claimed(jobs[n], seqs[n], mosts[n], ready, [] if n else spent) for n in range(len(batch))]


def claim(
    name: str,
    node: str,
    most_jobs: int,
    lease_ms: int | None,
    now: int,
    at: int | None = None,
    topic_id: int | None = None,
) -> Script[Claimed]:
    """Claims up to `most_jobs` jobs for the node. Together they have at most MAX_BYTES, or the claim gets a single larger job.

    `lease_ms`: with None, the queue's `lease_ms` counts. `topic_id`: a queue of this name with another id is another queue.

    `at`: the time of the leases, in tests (None: now). Raises TopicNotFound, NotAQueue, TopicSealed or NotReady.
    """

    def work(topic: CachedTopic) -> Script[Claimed | None]:
        if topic_id not in (None, topic.id):
            if (yield Statement(IS_CURRENT, (topic.id, topic.version), quick=True)):
                raise TopicNotFound(f"topic {name!r} was deleted", topic=name)
            return None
        if topic.claim_jitter_ms:
            yield ClaimWindow(topic)
        lease = topic.lease_ms if lease_ms is None else lease_ms
        done: Claimed | None = yield Claim(topic, node, most_jobs, lease, at, topic.expired_ts(now))
        if done is not None and done.spent:
            yield from bury(topic, done.spent, now, at)
        return done

    return in_queue(name, now, work)
