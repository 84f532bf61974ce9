"""The oracle's part about queues: each job is done once or still there, and dead letters are exact (docs/queues.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.crash.harness.evidence import QueueEvidence
from tests.crash.harness.queues import MOST_DELIVERIES


def faults(queues: dict[str, QueueEvidence]) -> Iterator[tuple[str, str]]:
    """Everything that is broken: the queue, and a sentence."""
    for name, queue in queues.items():
        for check in (
            one_content,
            each_job_is_somewhere,
            none_is_done_twice,
            none_comes_after_its_ack,
            letters_are_exact,
            counts_agree,
        ):
            yield from ((name, what) for what in check(queue))


def contents(queue: QueueEvidence) -> Iterator[tuple[int, str]]:
    """Seq and data of each job, as each of its readers got them."""
    yield from ((claim.seq, claim.data) for claim in queue.claimed)
    yield from queue.left.items()
    yield from ((letter.seq, letter.data) for letter in queue.dead)


def done(queue: QueueEvidence) -> dict[int, float]:
    """The seqs of accepted acks, with the time of the answer."""
    return {
        seq: asked.answered
        for asked in queue.asked
        if asked.name == "ack" and asked.answered is not None
        for seq in asked.seqs
    }


def one_content(queue: QueueEvidence) -> Iterator[str]:
    """A seq has one job, and each job was sent by its producer."""
    known: dict[int, str] = {}
    for seq, data in contents(queue):
        if known.setdefault(seq, data) != data:
            yield f"seq {seq} is {known[seq]}, and is {data}"
        if data not in queue.sent:
            yield f"seq {seq} is {data}, which nobody sent"


@pytest.mark.guarantee("Q1")
def each_job_is_somewhere(queue: QueueEvidence) -> Iterator[str]:
    """A job that was appended is acked, or a dead letter, or in the queue. The outcome of an ack without an answer is unknown."""
    data_of = dict(contents(queue))
    perhaps = {seq for asked in queue.asked if asked.name == "ack" for seq in asked.seqs}
    found = {data_of[seq] for seq in perhaps if seq in data_of}
    found |= {*queue.left.values(), *(letter.data for letter in queue.dead)}
    if lost := sorted(queue.appended - found):
        yield f"{len(lost)} appended jobs are gone, first {lost[0]}"
    accepted = done(queue)
    for seq in sorted(queue.left.keys() & accepted.keys()):
        yield f"seq {seq} was acked, and is still in the queue"
    for seq in sorted({letter.seq for letter in queue.dead} & (accepted.keys() | queue.left.keys())):
        yield f"seq {seq} is a dead letter, and was acked or is still in the queue"


@pytest.mark.guarantee("Q1")
def none_is_done_twice(queue: QueueEvidence) -> Iterator[str]:
    times = Counter(
        seq for asked in queue.asked if asked.name == "ack" and asked.answered is not None for seq in asked.seqs
    )
    yield from (f"seq {seq} was acked {count} times" for seq, count in times.items() if count > 1)
    jobs = Counter({data: len({seq for seq, other in contents(queue) if other == data}) for _, data in contents(queue)})
    yield from (f"{data} has {count} seqs" for data, count in jobs.items() if count > 1)


@pytest.mark.guarantee("Q1")
def none_comes_after_its_ack(queue: QueueEvidence) -> Iterator[str]:
    """No claim gets a job whose ack was answered before the claim was sent."""
    accepted = done(queue)
    for claim in queue.claimed:
        if claim.sent > accepted.get(claim.seq, claim.sent):
            yield f"{claim.who} got seq {claim.seq} at {claim.answered:.3f} s, acked at {accepted[claim.seq]:.3f} s"


@pytest.mark.guarantee("Q3")
def letters_are_exact(queue: QueueEvidence) -> Iterator[str]:
    """A dead letter was delivered as often as allowed, and is there once."""
    for seq, count in Counter(letter.seq for letter in queue.dead).items():
        if count > 1:
            yield f"seq {seq} is {count} dead letters"
    for letter in queue.dead:
        if letter.deliveries != MOST_DELIVERIES:
            yield f"seq {letter.seq} is a dead letter after {letter.deliveries} deliveries"
    most = Counter[int]()
    for claim in queue.claimed:
        most[claim.seq] = max(most[claim.seq], claim.deliveries)
    if queue.counts["dead_lettered"]:
        yield from (f"seq {seq} was delivered {n} times" for seq, n in most.items() if n > MOST_DELIVERIES)


def counts_agree(queue: QueueEvidence) -> Iterator[str]:
    """At the end nothing is delayed, so each job that is left is ready or in flight."""
    said = queue.counts["ready"] + queue.counts["in_flight"]
    if said != len(queue.left):
        yield f"{said} jobs are ready or in flight, and {len(queue.left)} are left"
    if queue.counts["dead_lettered"] != len(queue.dead):
        yield f"{queue.counts['dead_lettered']} jobs are dead, and there are {len(queue.dead)} dead letters"
