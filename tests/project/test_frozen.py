"""A process that stands still is replaced, and while it stands nothing else does. A slow machine kills nothing."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from base.refusal import Refusal
from console.health.heartbeat import ProcessHeartbeat
from outbox.relay import RelayProcess
from tests.crash.harness.processes import Process, Processes
from tests.instances import ROOT, WHOLE, Instance, start, until
from tests.threads import no_thread
from topics_project import heartbeats
from topics_project.heartbeats import Heartbeats, Watch, make

pytestmark = pytest.mark.deep(44)


KINDS: dict[str, Callable[[Processes], list[Process]]] = {
    "web": lambda found: found.web_workers,
    "worker": lambda found: found.worker,
    "worker's pool": lambda found: found.pool,
    "push": lambda found: found.push,
    "beat": lambda found: found.beat,
}


@pytest.fixture(scope="module")
def whole() -> Iterator[Instance]:
    with start(**WHOLE) as instance:
        yield instance


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "locks").mkdir()
    make(tmp_path)
    return tmp_path


def beating(instance: Instance) -> dict[int, str]:
    return {slot.pid: slot.name for _, slot in Heartbeats(instance.data).slots() if slot.is_alive}


def settle(instance: Instance) -> dict[str, list[Process]]:
    """Waits until there are processes of each kind, and each has a heartbeat. Returns them. One that stands still before its
    first is not known to stand still."""

    def settled() -> dict[str, list[Process]] | None:
        look = Processes(instance)
        found = {kind: of_kind(look) for kind, of_kind in KINDS.items()}
        pids = {each.pid for named in found.values() for each in named}
        return found if all(found.values()) and pids <= beating(instance).keys() else None

    processes: dict[str, list[Process]] = until(settled, "a heartbeat of each process")
    return processes


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_process_is_replaced(whole: Instance, kind: str) -> None:
    victim = settle(whole)[kind][0]
    os.kill(victim.pid, signal.SIGSTOP)
    until(lambda: victim.pid not in {each.pid for each in Processes(whole).all}, "the frozen process to be ended")
    until(lambda: any(KINDS[kind](Processes(whole))), "another one")
    until(lambda: any(name == kind and pid != victim.pid for pid, name in beating(whole).items()), "its heartbeat")
    assert f"{kind} (process {victim.pid}) had no heartbeat for 5 s: killed, another will start" in whole.output
    until(whole.is_ready, "the instance to be ready")


def test_an_instance_that_was_stopped_whole_goes_on_whole(whole: Instance) -> None:
    """As when a machine sleeps: the supervisor was late itself."""
    settle(whole)
    before = beating(whole)
    pids = whole.pids()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(7)  # longer than the limit: this is the very time that must do no harm
    until(whole.is_ready, "the instance to be ready")
    late = time.monotonic_ns()
    until(lambda: all(slot.beat_ns > late for _, slot in Heartbeats(whole.data).slots()), "a beat of everybody")
    assert beating(whole) == before


BLOCKED_LOOP = """
import asyncio, os, sys, time
from pathlib import Path
os.environ["TOPICS_SUPERVISED"] = "1"
from django.conf import settings
settings.configure(TOPICS_DATA=Path(sys.argv[1]))
from topics_project import heartbeats
async def main():
    heartbeats.in_loop("web")
    print("beats", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    time.sleep(600)
asyncio.run(main())
"""


def test_a_loop_that_stands_still_is_seen_though_its_threads_run(data: Path) -> None:
    argv = [sys.executable, "-c", BLOCKED_LOOP, str(data)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            process.stdout.readline()
            watch, said = Watch(Heartbeats(data), 2), list[str]()
            first = next(slot for _, slot in watch.heartbeats.slots()).beat_ns
            until(lambda: next(slot for _, slot in watch.heartbeats.slots()).beat_ns > first, "the loop to beat")
            watch.end_frozen(said.append)
            assert process.poll() is None
            process.stdin.write("\n")
            process.stdin.flush()

            def ended() -> bool:
                watch.end_frozen(said.append)
                return process.poll() is not None

            until(ended, "the process to be ended", tick=0.2)
            assert said == [f"web (process {process.pid}) had no heartbeat for 2 s: killed, another will start"]
        finally:
            process.kill()


def test_a_number_that_belongs_to_another_process_by_now_is_not_killed(data: Path) -> None:
    table = Heartbeats(data)
    table.take("web")
    (place, slot), *_ = table.slots()
    heartbeats.SLOT.pack_into(table.memory, place * heartbeats.SLOT.size, b"web", slot.pid, slot.started - 1, 1)
    assert table.late(time.monotonic_ns(), 5) == []
    assert list(table.slots()) == []


def test_slots_are_taken_once_and_given_back(data: Path) -> None:
    one, two = Heartbeats(data), Heartbeats(data)
    beats = [one.take(f"p{number}") for number in range(3)] + [two.take("p3")]
    assert [slot.name for _, slot in one.slots()] == ["p0", "p1", "p2", "p3"]
    now = time.monotonic_ns() + 10**10
    assert len(two.late(now, 5)) == 4
    for beat in beats:
        beat()
    assert one.late(time.monotonic_ns(), 5) == []


def test_a_look_without_a_free_descriptor_ends_and_forgets_no_process(data: Path) -> None:
    table, said = Heartbeats(data), list[str]()
    watch = Watch(table, 1)
    with subprocess.Popen(["sleep", "600"]) as late:
        try:
            table.take("web")
            row = b"web", late.pid, heartbeats.started(late.pid), 1
            heartbeats.SLOT.pack_into(table.memory, heartbeats.SLOT.size, *row)
            before = list(table.slots())
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
            try:
                watch.end_frozen(said.append)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert (late.poll(), said, list(table.slots())) == (None, [], before)
        finally:
            late.kill()


def test_a_sign_of_life_comes_again_after_its_folder_was_away(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system over the network. Without its thread, the probe would end the process."""
    settings.TOPICS_DATA = tmp_path
    monkeypatch.delenv("TOPICS_SUPERVISED", raising=False)
    monkeypatch.setattr(heartbeats, "BEAT_SECONDS", 0.01)
    heartbeats.in_thread("beat")
    folder, away = tmp_path / "alive", tmp_path / "away"
    until(lambda: (folder / "beat").exists(), "the first beat")
    folder.rename(away)
    time.sleep(0.5)  # some beats fail
    folder.mkdir()
    until(lambda: (folder / "beat").exists(), "another beat")


@pytest.mark.parametrize(
    "begin",
    [
        lambda: heartbeats.in_thread("beat"),
        lambda: ProcessHeartbeat("worker").start(lambda beat: beat()),
        lambda: RelayProcess().start(),
    ],
)
def test_a_process_without_a_thread_for_its_life_ends_and_does_not_go_on_without_it(
    begin: Callable[[], None], settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Celery would only log another error."""
    settings.TOPICS_DATA = tmp_path
    monkeypatch.delenv("TOPICS_SUPERVISED", raising=False)
    with no_thread(), pytest.raises(Refusal, match="did not start"):
        begin()
