"""Bodies and answers of the calls on queues, field by field (docs/wire.md)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from base.bounds import check_token
from base.errors import BatchTooLarge, InvalidRequest
from base.labels import check_node
from contract.config import LeaseMs
from contract.reading import Seq
from queues.claim import MOST_JOBS
from queues.leases import MOST_ERROR_BYTES
from queues.settle import Holding, holding
from topics.api.shapes import TopicName
from wire.request.parse import Request
from wire.schema import Clamped, Performance

Ready = Annotated[int, Meta(description="Jobs that a claim can get now.")]
InFlight = Annotated[int, Meta(description="Jobs that a node holds.")]
Skipped = Annotated[
    list[int], Meta(description="Seqs of jobs that the node does not hold, or no longer under this lease.")
]
DelayMs = Annotated[int, Meta(ge=0, le=86_400_000)]


class ClaimRequest(Request):
    """The body of a claim."""

    node: str
    """Name of the worker that gets the jobs: 1 to 128 bytes."""
    max: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 1
    """Maximum number of jobs. More than 1000 means 1000. If the jobs have more than 1 MiB, the server lowers
    `max`, and `clamped` has the lower number."""
    lease_ms: LeaseMs | None = None
    """Milliseconds after which the jobs come back: 100 to 86400000. Null: the `lease_ms` of the queue."""
    wait_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """Long poll: maximum milliseconds that the answer waits if the queue has no ready job. More than 30000 means 30000."""


class HeldRequest(Request):
    """A node, and jobs that it holds."""

    node: str
    """Name of the worker that claimed the jobs."""
    seqs: list[Seq]
    """Seqs of up to 1000 jobs. More are 400 `batch_too_large`."""
    lease_ids: list[str] | None = None
    """The `lease_id` of each seq, in the same order. With it, the call names this delivery of the job. Null: any delivery to
    the node."""

    def held(self) -> Holding:
        """Returns the leases that the call names. Raises InvalidRequest or BatchTooLarge."""
        check_worker(self.node)
        if len(self.seqs) > MOST_JOBS:
            raise BatchTooLarge(f"{len(self.seqs)} seqs in one call: expected at most {MOST_JOBS}", max=MOST_JOBS)
        if self.lease_ids is not None and len(self.lease_ids) != len(self.seqs):
            raise InvalidRequest(
                f"{len(self.lease_ids)} lease_ids for {len(self.seqs)} seqs: expected one for each seq",
                field="lease_ids",
            )
        return holding(self.node, self.seqs, self.lease_ids)


class AckRequest(HeldRequest):
    """The body of an ack."""


class NackRequest(HeldRequest):
    """The body of a nack."""

    delay_ms: DelayMs = 0
    """Milliseconds until the jobs are ready again: 0 to 86400000."""
    error: str | None = None
    """Why the jobs failed: up to 2048 bytes. A dead letter keeps the last error as `meta.$dead_letter_error`."""

    def release(self) -> tuple[int, str | None]:
        """Returns the delay, and the error without an empty text. Raises InvalidRequest."""
        if self.error is not None:
            check_token("error", self.error, MOST_ERROR_BYTES)
        return self.delay_ms, self.error or None


class ExtendRequest(HeldRequest, kw_only=True):
    """The body of an extend."""

    lease_ms: LeaseMs
    """Milliseconds from now until the jobs come back: 100 to 86400000."""


def check_worker(node: str) -> None:
    """Raises InvalidRequest if no worker can have this name."""
    if not node:
        raise InvalidRequest("node is empty: expected the name of the worker", field="node")
    check_node(node)


class JobShown(msgspec.Struct, kw_only=True):
    """A job, and the lease under which a node holds it. Fields that were not set are absent."""

    seq: int = msgspec.field(name="$seq")
    """Number of the job in its queue."""
    lease_id: str
    """Name of this delivery. Send it with an ack, so that a late ack cannot end the lease of another worker."""
    deadline: int
    """Time at which the job comes back, in milliseconds since the epoch, by PostgreSQL's clock."""
    ts: int = msgspec.field(name="$ts")
    """Time of the append, in milliseconds since the epoch."""
    tag: str | UnsetType = msgspec.field(name="$tag", default=UNSET)
    """Label of the record."""
    deliveries: int
    """Number of deliveries of the job, with this one."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Exactly the object that was sent."""
    data: Any
    """Exactly the JSON that was sent."""


class JobEvent(JobShown, kw_only=True):
    """A job of a stream. Its id is the seq."""

    topic: TopicName


class ClaimAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    claimed: list[JobShown]
    """The jobs, in order of seq."""
    count: int
    """Number of claimed jobs. Below `max`, or `clamped.max` if the answer has it: the queue has no more ready jobs."""
    ready: Ready
    clamped: Clamped = UNSET
    performance: Performance


class AckAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    acked: int
    """Number of jobs that are done."""
    skipped: Skipped
    ready: Ready
    in_flight: InFlight
    performance: Performance


class NackAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    nacked: int
    """Number of jobs that were given back."""
    skipped: Skipped
    ready: Ready
    in_flight: InFlight
    performance: Performance


class ExtendAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    extended: int
    """Number of leases with a new deadline."""
    skipped: Skipped
    deadlines: dict[str, int]
    """The new deadline of each job by seq, in milliseconds since the epoch."""
    performance: Performance
