"""The oracle of `make crash-failover` and `make crash-moves`: what docs/gateway.md excludes when writes or topics move."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SLACK = 0.05  # seconds that the clock of a claim may be behind that of the lease before

# -- Failover ----------------------------------------------------------------------------------------------------------


class Acked(NamedTuple):
    """A record that a client was told of. `number`: its data."""

    number: int
    seq: int


class Stored(NamedTuple):
    """A record of a server at the end. `ts`: when it was appended, by the server's clock, in ms since 1970."""

    ts: int
    server: str
    number: int


@dataclass
class FailoverEvidence:
    """The numbers of all acked records, the records of both servers, and how often writes moved to the other server."""

    acked: set[int] = field(default_factory=set)
    stored: list[Stored] = field(default_factory=list)
    switches: int = 0


def failover_faults(evidence: FailoverEvidence) -> Iterator[str]:
    """Everything that is broken, a sentence each."""
    for check in FAILOVER_CHECKS:
        yield from check(evidence)


def each_ack_is_stored(evidence: FailoverEvidence) -> Iterator[str]:
    if missing := evidence.acked - {record.number for record in evidence.stored}:
        yield f"{len(missing)} acked records are missing, among them {min(missing)}"


def one_server_acks_at_a_time(evidence: FailoverEvidence) -> Iterator[str]:
    """In the order of time, the acked records are of one server until a switch. Records without an ack do not count."""
    acked = sorted(record for record in evidence.stored if record.number in evidence.acked)
    spans = [(server, list(records)) for server, records in itertools.groupby(acked, lambda record: record.server)]
    if len(spans) > evidence.switches + 1:
        told = "; ".join(f"{server} {records[0].ts} to {records[-1].ts}" for server, records in spans)
        yield f"both servers acked at once: {evidence.switches} switches, and {len(spans)} spans: {told}"


FAILOVER_CHECKS = (each_ack_is_stored, one_server_acks_at_a_time)

# -- Moves -------------------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """A claim of a job. `until`: the deadline of its lease. By the server's clock, in seconds since 1970."""

    seq: int
    worker: str
    claimed: float
    until: float


class Done(NamedTuple):
    """An ack that was acked. `held`: the worker's claim. `sent`: when the worker sent the ack."""

    data: str
    held: Held
    sent: float


@dataclass
class MoveEvidence:
    """What the clients of a round were told, and at the end the log and the jobs of the queue at the new server."""

    acked: set[tuple[int, str]] = field(default_factory=set)  # seq and data of each acked record of the log
    sent: set[str] = field(default_factory=set)  # jobs whose append was acked
    asked: set[str] = field(default_factory=set)  # jobs that a worker tried to ack
    held: list[Held] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)  # the seqs that the reader of the log was sent
    other: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list
    )  # the reader's last id, and what was no record
    failed: list[str] = field(default_factory=list)  # clients that ended with an error
    log: list[tuple[int, str]] = field(default_factory=list)
    left: set[str] = field(default_factory=set)


def move_faults(evidence: MoveEvidence) -> Iterator[str]:
    """Everything that is broken, a sentence each."""
    for check in (*CHECKS_OF_CLIENTS, *CHECKS_OF_THE_END):
        yield from check(evidence)


def client_faults(evidence: MoveEvidence) -> Iterator[str]:
    """What is broken in a round that has not ended: it has no log and no queue yet."""
    for check in CHECKS_OF_CLIENTS:
        yield from check(evidence)


def clients_work(evidence: MoveEvidence) -> Iterator[str]:
    yield from evidence.failed


def one_ack_of_a_seq(evidence: MoveEvidence) -> Iterator[str]:
    for (seq, data), (other_seq, other) in itertools.pairwise(sorted(evidence.acked)):
        if seq == other_seq:
            yield f"seq {seq} was acked for {data} and for {other}"


def reader_gets_records(evidence: MoveEvidence) -> Iterator[str]:
    yield from (f"the reader behind {last!r} was sent {told}" for last, told in evidence.other)


def reader_goes_forward(evidence: MoveEvidence) -> Iterator[str]:
    if back := [pair for pair in itertools.pairwise(evidence.shown) if pair[0] >= pair[1]]:
        yield f"the reader went back {len(back)} times, first from {back[0][0]} to {back[0][1]}"


def none_is_done_twice(evidence: MoveEvidence) -> Iterator[str]:
    known: dict[str, int] = {}
    for done in evidence.done:
        if done.data in known:
            yield f"{done.data} was done twice, at seqs {known[done.data]} and {done.held.seq}"
        known[done.data] = done.held.seq


def one_worker_holds_a_job(evidence: MoveEvidence) -> Iterator[str]:
    """A job is given to the next worker when the claim before has ended: at its deadline, or when its ack was sent."""
    ends = {done.held: done.sent for done in evidence.done}
    ended = [held._replace(until=ends.get(held, held.until)) for held in evidence.held]
    by_claim = sorted(ended, key=lambda held: (held.seq, held.claimed))
    for first, second in itertools.pairwise(by_claim):
        if first.seq == second.seq and second.claimed < first.until - SLACK:
            yield f"job {first.seq} was given to {first} and to {second}"


def each_ack_is_in_the_log(evidence: MoveEvidence) -> Iterator[str]:
    by_seq = dict(evidence.log)
    if lost := {seq: data for seq, data in sorted(evidence.acked) if by_seq.get(seq) != data}:
        yield f"{len(lost)} acked records are missing or others: {dict(list(lost.items())[:5])}"


def none_is_stored_twice(evidence: MoveEvidence) -> Iterator[str]:
    if len({data for _, data in evidence.log}) != len(evidence.log):
        yield "a record is stored twice"


def reader_gets_the_log(evidence: MoveEvidence) -> Iterator[str]:
    """The reader gets each record of the log up to the last one that it got, and nothing else."""
    stored, shown = {seq for seq, _ in evidence.log}, set(evidence.shown)
    if unknown := shown - stored:
        yield f"the reader got {len(unknown)} records that are not in the log, first {min(unknown)}"
    if missing := {seq for seq in stored - shown if seq < max(shown, default=0)}:
        yield f"the reader missed {len(missing)} records, among them {min(missing)}"


def each_job_is_somewhere(evidence: MoveEvidence) -> Iterator[str]:
    """A job that no worker tried to ack is in the queue. The outcome of an ack without an answer is unknown."""
    if lost := evidence.sent - evidence.left - evidence.asked:
        yield f"{len(lost)} jobs that no worker acked are not in the queue, among them {min(lost)}"
    if again := evidence.left & {each.data for each in evidence.done}:
        yield f"{len(again)} jobs are in the queue after their ack, among them {min(again)}"


CHECKS_OF_CLIENTS = (
    clients_work,
    one_ack_of_a_seq,
    reader_gets_records,
    reader_goes_forward,
    none_is_done_twice,
    one_worker_holds_a_job,
)
CHECKS_OF_THE_END = (each_ack_is_in_the_log, none_is_stored_twice, reader_gets_the_log, each_job_is_somewhere)
