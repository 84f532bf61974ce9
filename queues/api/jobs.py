"""Claim, ack, nack and extend (docs/wire.md)."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from base.clock import now_ms
from base.errors import BatchTooLarge, NotAQueue, TopicNotFound, TopicSealed
from contract.operations import LONGEST_WAIT_MS, Operation
from queues.api.shapes import (
    AckAnswer,
    AckRequest,
    ClaimAnswer,
    ClaimRequest,
    ExtendAnswer,
    ExtendRequest,
    NackAnswer,
    NackRequest,
    check_worker,
)
from queues.claim import MOST_JOBS, Claimed
from queues.leases import refuse_log
from queues.settle import Ack, Extend, Nack, settle
from queues.waiting import claim_waiting, freed
from queues.work import tell
from store.script import Script
from topics.read.stamps import seen
from topics.sealed import DESCRIBED
from wire.answer import Answer, clamped
from wire.endpoint import Call, Endpoint

REFUSALS = (TopicNotFound, NotAQueue, TopicSealed)
of_jobs = partial(
    Endpoint,
    scope="write",
    errors=(*REFUSALS, BatchTooLarge),
    tells=DESCRIBED,
    names={"topic": "example-jobs"},
    needs_body=True,
    before_body=refuse_log,
    tag="queues",
)
EXAMPLE: dict[str, Any] = {"node": "worker-1", "seqs": [1]}


@of_jobs(
    Operation.CLAIM,
    body=ClaimRequest,
    answers={200: ClaimAnswer},
    errors=REFUSALS,
    example={"node": "worker-1", "max": 10},
)
def claim_jobs(call: Call[ClaimRequest, None], topic: str) -> Script[Answer]:
    """Claim jobs of a queue for a worker.

    Until the deadline no other worker gets these jobs. The answer has at most 1 MiB of jobs, but at least one job. If none is
    ready, it waits up to `wait_ms` for one. Also needs the scope `read`.
    """
    call.key.check("read")
    wanted = call.body
    check_worker(wanted.node)
    most = min(wanted.max, MOST_JOBS)
    done = yield from claim_waiting(topic, wanted.node, most, wanted.lease_ms, wanted.wait_ms, call.key)
    jobs = seen(",".join(done.jobs), call.key.prefixes)
    return Answer(200, render_claimed(topic, jobs, done, wanted, call.started))


def render_claimed(topic: str, jobs: str, done: Claimed, wanted: ClaimRequest, started: float) -> bytes:
    """Returns the body of a claim's answer. `jobs`: the jobs as a key may see them."""
    used = clamped(max=(wanted.max, done.most_jobs), wait_ms=(wanted.wait_ms, min(wanted.wait_ms, LONGEST_WAIT_MS)))
    told = "" if used is UNSET else f'"clamped":{msgspec.json.encode(used).decode()},'
    return (
        f'{{"topic":"{topic}","claimed":[{jobs}],"count":{len(done.jobs)},"ready":{done.ready},{told}'
        f'"performance":{{"server_total_ms":{(time.perf_counter() - started) * 1000:.3f}}}}}'
    ).encode()


@of_jobs(Operation.ACK, body=AckRequest, answers={200: AckAnswer}, example=EXAMPLE)
def ack_jobs(call: Call[AckRequest, None], topic: str) -> Script[Answer]:
    """Delete jobs that are done. An ack can be repeated."""
    done = yield from settle(Ack, topic, call.body.held(), (), now_ms())
    tell(topic, list(done.done))
    return call.answer(
        AckAnswer(
            topic=topic,
            acked=len(done.done),
            skipped=done.skipped,
            ready=done.ready,
            in_flight=done.in_flight,
            performance=call.performance(),
        )
    )


@of_jobs(
    Operation.NACK,
    body=NackRequest,
    answers={200: NackAnswer},
    example={**EXAMPLE, "delay_ms": 1000, "error": "exit code 1"},
)
def nack_jobs(call: Call[NackRequest, None], topic: str) -> Script[Answer]:
    """Give jobs back, so that workers can claim them again."""
    done = yield from settle(Nack, topic, call.body.held(), call.body.release(), now_ms())
    tell(topic, list(done.done))
    freed(topic)
    return call.answer(
        NackAnswer(
            topic=topic,
            nacked=len(done.done),
            skipped=done.skipped,
            ready=done.ready,
            in_flight=done.in_flight,
            performance=call.performance(),
        )
    )


@of_jobs(
    Operation.EXTEND,
    body=ExtendRequest,
    answers={200: ExtendAnswer},
    example={**EXAMPLE, "lease_ms": 60_000},
)
def extend_jobs(call: Call[ExtendRequest, None], topic: str) -> Script[Answer]:
    """Give leases that have not ended a new deadline."""
    done = yield from settle(Extend, topic, call.body.held(), (call.body.lease_ms,), now_ms())
    return call.answer(
        ExtendAnswer(
            topic=topic,
            extended=len(done.done),
            skipped=done.skipped,
            deadlines={str(seq): deadline for seq, deadline in done.done.items()},
            performance=call.performance(),
        )
    )
