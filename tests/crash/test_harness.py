"""What the crash harness lays hands on does what it says: a plan that a seed replays, a clock that steps, a disk that fills."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.harness.clock import Clock, NoClock
from tests.crash.harness.disk import Disk, NoDisk
from tests.crash.harness.faults import FAULTS
from tests.crash.harness.plan import APART, plan
from tests.crash.harness.topology import Written, written
from tests.processes import child_process


def test_a_seed_replays_its_plan() -> None:
    assert plan(7, 200, set()) == plan(7, 200, set())
    assert plan(7, 200, set()) != plan(8, 200, set())


@pytest.mark.parametrize("seed", range(20))
def test_a_run_of_sixty_has_every_fault(seed: int) -> None:
    names = {step.fault.name for step in plan(seed, 60, set())}
    assert names == {fault.name for fault in FAULTS}


def test_what_the_machine_does_not_have_is_left_out() -> None:
    assert not {"clock", "disk"} & {step.fault.needs for step in plan(7, 200, {"clock", "disk"})}


def test_victims_are_given_time() -> None:
    victims = [step.fault.victim for step in plan(7, 500, set())]
    for place in range(len(victims) - APART):
        assert len(set(victims[place : place + APART])) == APART


def test_a_record_says_what_it_is() -> None:
    record = Written("keyed.disk", "1", 12, 0, 3, "keep", "left")
    assert written(record.data("xxxx")) == record


ASK_THE_TIME = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


def test_the_clock_steps_under_a_running_process(tmp_path: Path) -> None:
    try:
        clock = Clock(tmp_path)
    except NoClock as error:
        pytest.skip(str(error))
    argv = [sys.executable, "-c", ASK_THE_TIME]
    env = {**os.environ, **clock.environment}
    with child_process(argv, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask() -> tuple[float, float]:
            print(file=process.stdin, flush=True)
            wall, monotonic = process.stdout.readline().split()
            return float(wall), float(monotonic)

        wall, monotonic = ask()
        for step in (3600.0, -3600.0, -10.5, 0.0):
            clock.step(step)
            stepped, later = ask()
            # Both clocks go on meanwhile, by the same time; only one of them jumps.
            assert stepped - wall == pytest.approx(step + later - monotonic, abs=0.2)
        for pid, step in ((process.pid, 3600.0), (os.getpid(), 0.0), (0, 0.0)):
            clock.step_one(pid, 3600.0)
            stepped, later = ask()
            assert stepped - wall == pytest.approx(step + later - monotonic, abs=0.2)
        process.stdin.close()


def fill_a_disk(folder: Path) -> str:
    """Returns the result of a check in a mount namespace of its own."""
    try:
        disk = Disk(folder)
    except NoDisk as error:
        return f"cannot: {error}"
    (folder / "there").write_bytes(bytes(2**20))
    disk.fill()
    try:
        (folder / "more").write_bytes(bytes(2**20))
    except OSError as error:
        full = error.errno == errno.ENOSPC
    else:
        full = False
    disk.make_room()
    (folder / "more").write_bytes(bytes(2**20))
    disk.remove()
    return "full, then not" if full else "never full"


def test_a_disk_is_full_until_it_is_not(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(fill_a_disk, (tmp_path,))
    if found.startswith("cannot"):
        pytest.skip(found)
    assert found == "full, then not"
    assert list(tmp_path.iterdir()) == []
