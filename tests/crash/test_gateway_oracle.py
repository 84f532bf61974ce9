"""The oracle of the runs with gateways finds each kind of fault that is planted, and nothing in a good run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from tests.crash.harness import gateway_oracle
from tests.crash.harness.gateway_oracle import (
    CHECKS_OF_CLIENTS,
    CHECKS_OF_THE_END,
    FAILOVER_CHECKS,
    SLACK,
    Done,
    FailoverEvidence,
    Held,
    MoveEvidence,
    Stored,
    client_faults,
    failover_faults,
    move_faults,
)
from tests.crash.harness.scene import Broken, judge


class Plant(NamedTuple):
    """A fault, and the check that tells it with these words."""

    kind: str
    check: str
    told: str
    breaks: Callable[[Any], object]


def found(checks: Iterable[Callable[[Any], Iterable[str]]], evidence: Any) -> dict[str, list[str]]:
    """Returns the sentences of each check that found a fault."""
    told = {check.__name__: list(check(evidence)) for check in checks}
    return {name: sentences for name, sentences in told.items() if sentences}


def by_kind(plants: list[Plant]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("plant", plants, ids=[plant.kind for plant in plants])


# -- Failover ----------------------------------------------------------------------------------------------------------


def failover() -> FailoverEvidence:
    """Writes moved to the second server, and back. Records 9 and 10 had no answer, so they may be anywhere."""
    servers = [(1, "first"), (2, "second"), (3, "first")]
    stored = [Stored(100 * place, server, 2 * place + n) for place, server in servers for n in range(2)]
    stored += [Stored(200, "first", 9), Stored(310, "second", 10)]
    return FailoverEvidence(set(range(2, 8)), stored, switches=2)


FAILOVER_PLANTS = [
    Plant("a loss", "each_ack_is_stored", "1 acked records are missing, among them 8", lambda e: e.acked.add(8)),
    Plant(
        "two servers at once",
        "one_server_acks_at_a_time",
        "2 switches, and 5 spans: first 100 to 100; second 200 to 200; first 300 to 300; second 310 to 310",
        lambda e: e.acked.add(10) or e.stored.append(Stored(320, "first", 2)),
    ),
    Plant(
        "a record at both servers",
        "one_server_acks_at_a_time",
        "2 switches, and 4 spans",
        lambda e: e.stored.append(Stored(350, "second", 7)),
    ),
    Plant(
        "a switch that nobody wanted",
        "one_server_acks_at_a_time",
        "both servers acked at once: 1 switches, and 3 spans",
        lambda e: setattr(e, "switches", 1),
    ),
]


def test_writes_that_move_pass() -> None:
    assert list(failover_faults(failover())) == []


@by_kind(FAILOVER_PLANTS)
def test_a_failover_that_breaks_a_promise_is_found(plant: Plant) -> None:
    evidence = failover()
    plant.breaks(evidence)
    ((name, sentences),) = found(FAILOVER_CHECKS, evidence).items()
    assert name == plant.check
    assert plant.told in sentences[0]
    assert list(failover_faults(evidence)) == sentences


# -- Moves -------------------------------------------------------------------------------------------------------------

ONE = Held(1, "worker-3", 10, 13)
TWO, AGAIN = Held(2, "worker-3", 10, 13), Held(2, "worker-4", 13 - SLACK, 16)
LATE = Held(3, "worker-4", 20, 23)


def moved() -> MoveEvidence:
    """Records: the append of `c` had no answer, and the reader has not got `d` yet.

    Jobs: `one` was done. `two` was done by the second worker, after the lease of the first had ended. The ack of `three` was sent
    after its lease, and nobody else had the job. `five` is left. The ack of `four` and the append of `six` had no answer.
    """
    return MoveEvidence(
        acked={(1, "a"), (2, "b"), (4, "d")},
        sent={"one", "two", "three", "four", "five"},
        asked={"one", "two", "three", "four"},
        held=[AGAIN, ONE, TWO, LATE, Held(4, "worker-3", 20, 23)],
        done=[Done("one", ONE, 11), Done("two", AGAIN, 14), Done("three", LATE, 25)],
        shown=[1, 2, 3],
        log=[(1, "a"), (2, "b"), (3, "c"), (4, "d")],
        left={"five", "six"},
    )


MOVE_PLANTS = [
    Plant(
        "a client that fails", "clients_work", "client 0: no answer", lambda e: e.failed.append("client 0: no answer")
    ),
    Plant(
        "two acks of a seq",
        "one_ack_of_a_seq",
        "seq 3 was acked for c and for x",
        lambda e: e.acked.update({(3, "c"), (3, "x")}),
    ),
    Plant(
        "an end of the stream",
        "reader_gets_records",
        "the reader behind '3' was sent {'reason': 'recreated'}",
        lambda e: e.other.append(("3", {"reason": "recreated"})),
    ),
    Plant("a step back", "reader_goes_forward", "1 times, first from 3 to 2", lambda e: e.shown.extend([2, 3])),
    Plant("a record again", "reader_goes_forward", "1 times, first from 3 to 3", lambda e: e.shown.append(3)),
    Plant(
        "a job that is done again",
        "none_is_done_twice",
        "one was done twice, at seqs 1 and 7",
        lambda e: e.done.append(Done("one", Held(7, "worker-4", 30, 33), 31)),
    ),
    Plant(
        "two acks of a job",
        "none_is_done_twice",
        "one was done twice, at seqs 1 and 1",
        lambda e: e.done.append(Done("one", ONE, 12)),
    ),
    Plant(
        "a job with two holders",
        "one_worker_holds_a_job",
        "job 2 was given to Held(seq=2, worker='worker-3'",
        lambda e: e.held.append(Held(2, "worker-4", 12, 15)),
    ),
    Plant(
        "a job that is given before its ack",
        "one_worker_holds_a_job",
        "job 3 was given to Held(seq=3, worker='worker-4', claimed=20, until=25)",
        lambda e: e.held.append(Held(3, "worker-3", 24, 27)),
    ),
    Plant(
        "a loss",
        "each_ack_is_in_the_log",
        "1 acked records are missing or others: {4: 'd'}",
        lambda e: e.log.remove((4, "d")),
    ),
    Plant(
        "another record at a seq",
        "each_ack_is_in_the_log",
        "1 acked records are missing or others: {4: 'd'}",
        lambda e: e.log.__setitem__(3, (4, "x")),
    ),
    Plant("a record twice", "none_is_stored_twice", "stored twice", lambda e: e.log.append((5, "a"))),
    Plant(
        "a seq twice",
        "none_is_stored_twice",
        "stored twice",
        lambda e: e.log.append((4, "d")),
    ),
    Plant(
        "a record of nowhere",
        "reader_gets_the_log",
        "the reader got 1 records that are not in the log, first 5",
        lambda e: e.shown.extend([4, 5]),
    ),
    Plant(
        "a record that the reader missed",
        "reader_gets_the_log",
        "the reader missed 1 records, among them 2",
        lambda e: e.shown.remove(2),
    ),
    Plant(
        "a job that is nowhere",
        "each_job_is_somewhere",
        "1 jobs that no worker acked are not in the queue, among them five",
        lambda e: e.left.remove("five"),
    ),
    Plant(
        "a job that is left after its ack",
        "each_job_is_somewhere",
        "1 jobs are in the queue after their ack, among them one",
        lambda e: e.left.add("one"),
    ),
]


def test_topics_that_move_pass() -> None:
    assert list(move_faults(moved())) == []
    assert list(client_faults(moved())) == []
    assert list(move_faults(MoveEvidence())) == []


def test_a_job_that_was_acked_early_is_free_at_its_ack() -> None:
    evidence = moved()
    evidence.held.append(Held(1, "worker-4", 11, 14))
    assert list(move_faults(evidence)) == []
    evidence.done.remove(Done("one", ONE, 11))
    assert list(found(CHECKS_OF_CLIENTS, evidence)) == ["one_worker_holds_a_job"]


@by_kind(MOVE_PLANTS)
def test_a_move_that_breaks_a_promise_is_found(plant: Plant) -> None:
    evidence = moved()
    plant.breaks(evidence)
    of_clients, of_the_end = found(CHECKS_OF_CLIENTS, evidence), found(CHECKS_OF_THE_END, evidence)
    told = of_clients | of_the_end
    assert plant.told in told.pop(plant.check)[0]
    # Two records are acked for one seq, so the log cannot have both.
    assert set(told) == ({"each_ack_is_in_the_log"} if plant.kind == "two acks of a seq" else set())
    assert list(client_faults(evidence)) == [each for sentences in of_clients.values() for each in sentences]
    assert list(move_faults(evidence)) == [*client_faults(evidence), *(s for each in of_the_end.values() for s in each)]


# -- Both --------------------------------------------------------------------------------------------------------------


def test_each_check_finds_a_planted_fault() -> None:
    functions = {name for name, _ in inspect.getmembers(gateway_oracle, inspect.isgeneratorfunction)}
    checks = functions - {"failover_faults", "move_faults", "client_faults"}
    assert {plant.check for plant in (*FAILOVER_PLANTS, *MOVE_PLANTS)} == checks


def test_a_run_ends_with_what_the_oracle_found() -> None:
    judge([])
    with pytest.raises(Broken, match=r"^one\ntwo$"):
        judge(["one", "two"])
