"""The rule of the FailoverRouter with simulated clocks: no two processes may ever write to different servers at once.

Each process has a clock of its own that runs fast or slow. Requests and answers take as long as they like, processes stop and
start with other leases, and the witness loses decisions.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import NotReady
from gateway.routers.lease import Decided, DecisionRecord, Proposal, WriteLease
from tests.examples import examples

LEASES = (1000, 3000, 10_000)
RATES = (0.98, 1.0, 1.02)  # of clocks
TAIL = 100


class Granted(NamedTuple):
    """A time in which a process can have writes under way at a server, in true seconds."""

    begin: float
    end: float
    server: str


class Simulation:
    """One true time, a witness, and processes that know the time only from their own clocks."""

    def __init__(self, seed: int) -> None:
        self.chance, self.now = Random(seed), 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.log: list[DecisionRecord] = []
        self.appended = 0.0  # when the last decision was appended
        self.granted: list[Granted] = []

    def later(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.numbers), event))

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self.events and self.events[0][0] <= until:
            self.now, _, event = heapq.heappop(self.events)
            event()
        self.now = until

    def append(self, decided: Decided, head: int | None = None) -> None:
        if head in (None, len(self.log)):
            # The clock of the witness does not matter: `$ts` only identifies a record.
            self.appended = self.now
            self.log.append(DecisionRecord(len(self.log) + 1, next(self.numbers), decided))


class Process:
    def __init__(self, simulation: Simulation, live: str, lease_ms: int) -> None:
        self.simulation, chance = simulation, simulation.chance
        self.rate, self.started = chance.choice(RATES), chance.uniform(-1000, 1000)
        self.lease = WriteLease(live, "ba"[live == "b"], lease_ms)
        self.is_over = False
        self.look()

    def clock(self) -> float:
        return self.started + self.simulation.now * self.rate

    def look(self) -> None:
        """Asks the witness, and asks again later. One request is under way at a time, as in the process."""
        asked, later = self.clock(), self.simulation.later
        there, back, pause = self.delay(), self.delay(), self.lease.longest(()) / 4000 + self.delay()

        def at_witness() -> None:
            log = list(self.simulation.log)
            later(back, lambda: self.answered(log, asked))

        if not self.is_over:
            later(there, at_witness)
            later(there + back + pause, self.look)

    def delay(self) -> float:
        """Returns how long a message takes. A few take longer than a lease, as if somebody had stopped the process."""
        chance = self.simulation.chance
        return chance.uniform(0, 12) if chance.random() < 0.05 else chance.uniform(0, 0.6)

    def answered(self, log: list[DecisionRecord], asked: float) -> None:
        simulation = self.simulation
        try:
            proposal: Proposal | None = self.lease.see(log[-TAIL:], len(log), asked, self.clock())
        except NotReady:
            return
        if proposal is not None:
            simulation.later(self.delay(), lambda: simulation.append(proposal.decided, proposal.head))
        begin, end = max(self.clock(), self.lease.writes_from), self.lease.valid_until
        if begin < end and not self.is_over:
            now, clock = simulation.now, self.clock()
            times = (now + (each - clock) / self.rate for each in (begin, end))
            simulation.granted.append(Granted(*times, self.lease.live))


def run(seed: int, leases: Sequence[int], *, loses: bool = False) -> Simulation:
    """Three processes look and write for some minutes, while other things happen at times of chance."""
    simulation = Simulation(seed)
    chance = simulation.chance
    processes = [Process(simulation, chance.choice("ab"), chance.choice(leases)) for _ in range(3)]
    for _ in range(20):
        simulation.advance(chance.choice((0.5, 3, 15, 30)) * chance.random())
        match chance.choice(("wish", "wish", "restart", "lose")):
            case "wish":
                simulation.append(Decided(chance.choice("ab"), chance.choice((None, None, 500))))
            case "restart":
                gone = chance.randrange(3)
                processes[gone].is_over = True
                processes[gone] = Process(simulation, chance.choice("ab"), chance.choice(leases))
            # The whole log, or the witness is restored from a backup. That takes longer than a lease after its last decision.
            case "lose" if loses and simulation.now > simulation.appended + 3.2:
                del simulation.log[chance.randrange(len(simulation.log) + 1) :]
    simulation.advance(60)
    return simulation


def check_one_server_at_a_time(simulation: Simulation) -> None:
    granted = sorted(simulation.granted)
    ends = {"a": -1.0, "b": -1.0}
    for each in granted:
        other = "ba"[each.server == "b"]
        assert ends[other] <= each.begin, f"{each}: the other server may get writes until {ends[other]}"
        ends[each.server] = max(ends[each.server], each.end)


@pytest.mark.guarantee("G1")
@settings(max_examples=examples(150))
@given(st.integers(0, 2**32))
def test_processes_with_different_leases_never_write_to_two_servers_at_once(seed: int) -> None:
    check_one_server_at_a_time(run(seed, LEASES))


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32))
def test_a_witness_that_loses_decisions_lets_no_two_servers_write_at_once(seed: int) -> None:
    check_one_server_at_a_time(run(seed, LEASES[1:2], loses=True))


def test_the_processes_of_the_model_do_write_to_both_servers() -> None:
    """Without this test, a rule that refuses every write would pass the others."""
    assert {each.server for seed in range(5) for each in run(seed, LEASES).granted} == {"a", "b"}


# -- One process, step by step -----------------------------------------------------------------------------------------


def decided(seq: int, live: str, lease_ms: int | None = 1000, ts: int = 1) -> DecisionRecord:
    return DecisionRecord(seq, ts, Decided(live, lease_ms))


def test_a_process_writes_one_lease_after_it_first_saw_the_decision() -> None:
    lease = WriteLease("a", "b", 1000)
    assert lease.see([decided(1, "a")], 1, 10.0, 10.5) is None
    assert not lease.allows(10.5)
    lease.see([decided(1, "a")], 1, 10.8, 10.9)
    lease.see([decided(1, "a")], 1, 11.4, 11.45)
    assert (lease.allows(11.45), lease.allows(11.5), lease.allows(12.4)) == (False, True, False)
    lease.see([decided(1, "a")], 1, 12.3, 12.4)  # the lease had ended, so the process waits again
    assert (lease.allows(13.1), lease.writes_from) == (False, 13.4)


def test_a_wish_and_a_short_lease_are_repeated_with_the_longest_lease() -> None:
    lease = WriteLease("a", "b", 1000)
    before = decided(1, "a", 5000)
    assert lease.see([before, decided(2, "b", None)], 2, 0.0, 0.0) == (2, Decided("b", 5000))
    assert lease.see([before, decided(2, "b", 200)], 2, 0.0, 0.0) == (2, Decided("b", 5000))
    assert lease.see([], 0, 0.0, 0.0) == (0, Decided("a", 1000))
    assert not lease.allows(0.1)


def test_a_lost_decision_is_written_again_by_who_remembers_it() -> None:
    for tail in ([], [decided(1, "a")], [decided(1, "a"), decided(2, "a", ts=2)]):
        lease = WriteLease("a", "b", 1000)
        lease.see([decided(1, "a"), decided(2, "b")], 2, 0.0, 0.0)
        assert lease.see(tail, len(tail), 5.0, 5.0) == (len(tail), Decided("b", 1000))
        assert not lease.allows(5.0)
    assert lease.see([decided(1, "a"), decided(2, "a", ts=2), decided(3, "b")], 3, 6.0, 6.0) is None
    assert lease.writes_from == 7.0


def test_a_decision_for_the_live_route_stops_no_writes() -> None:
    lease, first = WriteLease("a", "b", 1000), decided(1, "a")
    lease.see([first], 1, 0.0, 0.0)
    lease.see([first], 1, 0.9, 0.9)
    lease.see([first, decided(2, "a", None), decided(3, "a")], 3, 1.7, 1.7)
    assert lease.allows(1.7)
    lease.see([first, decided(2, "a", None), decided(3, "a"), decided(4, "b"), decided(5, "a")], 5, 2.5, 2.5)
    assert not lease.allows(2.5)
