"""Queues beside the model in memory: any mix of appends, forwards, claims, acks, nacks, extends, redrives, deletes and
time."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

import queues.claim
from queues.claim import claim
from queues.counts import count_jobs
from queues.figures import largest
from queues.letters import Choice
from queues.redrive import redrive
from queues.settle import Ack, Extend, Nack, Settle, holding, settle
from routers.routers import RouterConfig
from store.script import run
from tests.examples import examples
from tests.queues.model import Job, Queue
from tests.scripts import append, delete_seqs, diff, look_up, put_router, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.cache import forget_all
from topics.config import Config
from topics.read.diff import Diff
from wire.access.keys import OPEN

NOW = 1_748_470_000_000
NODES = st.sampled_from(["a", "b"])
LEASES = st.sampled_from([None, 100, 1_000])
# Which of the jobs that were ever claimed, and whether the call names their lease.
PICKED = st.tuples(st.lists(st.integers(0, 30), max_size=5), st.booleans())
OPERATIONS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(["q", "source"]), st.integers(1, 4)),
    st.tuples(st.just("claim"), NODES, st.integers(1, 5), LEASES),
    st.tuples(st.just("claim"), NODES, st.integers(1, 5), LEASES),
    st.tuples(st.just("ack"), NODES, PICKED),
    st.tuples(st.just("nack"), NODES, PICKED, st.sampled_from([0, 0, 500]), st.sampled_from([None, "e", "f"])),
    st.tuples(st.just("redrive"), st.integers(1, 3), st.sampled_from([None, "t0", "t1"])),
    st.tuples(st.just("extend"), NODES, PICKED, st.sampled_from([100, 2_000])),
    st.tuples(st.just("delete"), st.integers(1, 20)),
    st.tuples(st.just("sleep"), st.sampled_from([1, 100, 500, 1_000])),
    st.tuples(st.just("keep"), st.booleans()),
)


class World:
    """The store and the model of it, side by side: each operation is done to both, and their answers agree."""

    def __init__(self, max_deliveries: int, durable: bool) -> None:
        self.now = NOW
        self.model = Queue(max_deliveries)
        self.claimed: list[tuple[int, str]] = []  # seqs, each with a lease that it had
        self.sent = 0
        put_topic("q", config(max_deliveries=max_deliveries, dead_letter="dead", leases_durable=durable), NOW)
        put_topic("source", Config(), NOW)
        put_router("source>q", RouterConfig(source="source", dest="q"), NOW)

    def append(self, topic: str, count: int) -> None:
        data = [self.sent + n for n in range(count)]
        self.sent += count
        wanted = Append(records=[NewRecord(data=msgspec.Raw(str(n).encode()), tag=f"t{n}") for n in data])
        append(topic, wanted, check_rows(wanted), self.now)
        shown = diff("q", Diff(from_seq=0, limit=1000), self.now)  # forwards
        for seq, value in zip(range(shown.head_seq - count + 1, shown.head_seq + 1), data, strict=True):
            self.model.append(seq, value, self.now)

    def claim(self, node: str, most: int, lease_ms: int | None) -> None:
        expected = self.model.claim(most, self.now, queues.claim.MAX_BYTES)
        done = run(claim("q", node, most, lease_ms, self.now, self.now))
        jobs = [json.loads(job) for job in done.jobs]
        assert [job["$seq"] for job in jobs] == [job.seq for job in expected]
        for job, shown in zip(expected, jobs, strict=True):
            job.node, job.lease, job.deliveries = node, shown["lease_id"], job.deliveries + 1
            job.deadline = self.now + (lease_ms or 30_000)
            assert (shown["deadline"], shown["deliveries"]) == (job.deadline, job.deliveries)
            assert (shown["data"], shown["$tag"]) == (job.data, f"t{job.data}")
            self.claimed.append((job.seq, shown["lease_id"]))
        assert done.ready == self.model.counts(self.now)[0]

    def settle(
        self, kind: type[Settle[Any]], node: str, picked: tuple[list[int], bool], values: tuple[Any, ...]
    ) -> Any:
        """Returns the jobs of the model that the call is about, and the store's answer to the call."""
        places, names_lease = picked
        named = dict(self.claimed[place] for place in places if place < len(self.claimed))
        seqs, leases = list(named), [*named.values()] if names_lease else None
        jobs = self.model.held(node, seqs, leases or [None] * len(seqs))
        if kind is Extend:
            jobs = [job for job in jobs if job.is_in_flight(self.now)]
        done = run(settle(kind, "q", holding(node, seqs, leases), values, self.now, self.now))
        assert sorted(done.done) == sorted(job.seq for job in jobs)
        assert done.skipped == [seq for seq in seqs if seq not in done.done]
        return jobs, done

    def ack(self, node: str, picked: Any) -> None:
        jobs, done = self.settle(Ack, node, picked, ())
        for job in jobs:
            del self.model.jobs[job.seq]
        assert (done.ready, done.in_flight) == self.model.counts(self.now)[:2]

    def nack(self, node: str, picked: Any, delay_ms: int, error: str | None) -> None:
        jobs, done = self.settle(Nack, node, picked, (delay_ms, error))
        for job in jobs:
            job.node, job.lease, job.deadline, job.error = None, None, self.now + delay_ms, error or job.error
        assert (done.ready, done.in_flight) == self.model.counts(self.now)[:2]

    def extend(self, node: str, picked: Any, lease_ms: int) -> None:
        jobs, done = self.settle(Extend, node, picked, (lease_ms,))
        for job in jobs:
            job.deadline = self.now + lease_ms
        assert done.done == {job.seq: job.deadline for job in jobs}

    def redrive(self, limit: int, tag: str | None) -> None:
        """Sends letters back: the first ones with this tag, at most `limit`. They are new jobs."""
        if not self.model.moved:
            return
        moved = [job for job in self.model.dead if tag in (None, f"t{job.data}")][:limit]
        head = diff("q", Diff(limit=1), self.now).head_seq
        done = run(redrive("dead", Choice(limit=limit, match=tag), OPEN, self.now))
        assert (sum(done.moved.values()), done.skipped) == (len(moved), [])
        for place, job in enumerate(moved, 1):
            self.model.dead.remove(job)
            self.model.append(head + place, job.data, self.now)

    def delete(self, seq: int) -> None:
        delete_seqs("q", [seq], self.now)
        self.model.jobs.pop(seq, None)

    def sleep(self, ms: int) -> None:
        self.now += ms

    def keep(self, durable: bool) -> None:
        put_topic("q", config(leases_durable=durable), self.now)

    def check(self) -> None:
        counts = self.model.counts(self.now)
        assert run(count_jobs(look_up("q"), self.now, self.now)) == counts
        (queue,) = run(largest(1, self.now, at=self.now))
        assert (queue.ready, queue.in_flight, queue.dead_lettered, queue.delayed, queue.oldest_ready_ms) == counts
        shown = json.loads(f"[{diff('q', Diff(limit=1000), self.now).records or ''}]")
        assert {each["$seq"]: each["data"] for each in shown} == {job.seq: job.data for job in self.model.jobs.values()}

    def check_dead(self) -> None:
        if not self.model.moved:
            return
        found = diff("dead", Diff(limit=1000, include_tags=True), self.now).records
        letters = [(each["data"], each["$tag"], each["meta"]) for each in json.loads(f"[{found or ''}]")]
        assert letters == [(job.data, f"t{job.data}", meta_of(job)) for job in self.model.dead]


def meta_of(job: Job) -> dict[str, Any]:
    meta = {"$dead_letter_from": "q", "$dead_letter_deliveries": job.deliveries, "$dead_letter_src_seq": job.seq}
    return meta if job.error is None else meta | {"$dead_letter_error": job.error}


def config(**fields: Any) -> Config:
    return Config(type="queue", **fields)


@pytest.mark.guarantee("Q1")
@pytest.mark.django_db
@given(
    operations=st.lists(OPERATIONS, min_size=5, max_size=40),
    most=st.sampled_from([0, 1, 3]),
    durable=st.booleans(),
    most_bytes=st.sampled_from([1, 4, 1_000]),
)
@settings(max_examples=examples(15))
def test_the_queue_does_what_the_model_says(
    monkeypatch: pytest.MonkeyPatch, operations: list[tuple[Any, ...]], most: int, durable: bool, most_bytes: int
) -> None:
    monkeypatch.setattr(queues.claim, "MAX_BYTES", most_bytes)
    with transaction.atomic():
        forget_all()
        world = World(most, durable)
        for name, *arguments in operations:
            getattr(world, name)(*arguments)
            world.check()
            world.check_dead()
        transaction.set_rollback(True)
    forget_all()
