"""Children of the supervisor exit with the supervisor, and their logs do not fill the disk."""

import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from embedded import Servers
from embedded.children import LONGEST_DELAY, Child, RunningProcess, die_with_parent, execute
from tests.deadlines import DEADLINE
from tests.instances import ROOT, until
from tests.processes import child_process
from topics_project.forks import descriptors, fork
from topics_project.supervisor import bring_back

# Deaf to everything that can be ignored, once it has said so.
DEAF = ["sh", "-c", "trap '' INT QUIT TERM; echo deaf; while :; do sleep 0.1; done"]
# A parent with one child. The parent prints the child's process id.
PARENT = """
import signal, sys
from pathlib import Path
from embedded.children import Child
log, *argv = sys.argv[1:]
child = Child("child", argv, Path(log), patience=0.1, {options})
child.start()
print(child.process.pid, flush=True)
sys.stdin.read()
"""
# One process, which exits. The fork of the next one fails twice, and that one ends them all.
FORKING = """
import errno, os, signal, sys
from pathlib import Path
from base import prefork

begun, failing, fork = Path(sys.argv[1]), [OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) for _ in range(2)], os.fork

def fork_later():
    if begun.exists() and failing:
        raise failing.pop()
    return fork()

def work(slot):
    if begun.exists():
        os.kill(os.getppid(), signal.SIGTERM)
        signal.pause()
    begun.touch()
    return 3

os.fork = fork_later
sys.exit(prefork.run(1, work, name="work"))
"""
# One process, which goes on after a SIGHUP to both, and then ends them.
HUNG_UP = """
import os, signal, sys
from base import prefork

def work(slot):
    for pid in (os.getppid(), os.getpid()):
        os.kill(pid, signal.SIGHUP)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(os.getppid(), signal.SIGTERM)
    return 3

sys.exit(prefork.run(1, work, name="work"))
"""
ON_A_LEASH = "orphan_signal=signal.SIGINT"


def sleeper(parent: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM))


def test_a_child_whose_parent_died_while_it_started_ends() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert sleeper(gone.pid).wait(DEADLINE) == -signal.SIGTERM


def test_a_child_whose_parent_lives_goes_on() -> None:
    child = sleeper(os.getpid())
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.2)
    child.kill()
    child.wait()


@pytest.mark.parametrize("options", ["", ON_A_LEASH])
def test_a_child_that_ignores_every_signal_ends_with_its_parent(tmp_path: Path, options: str) -> None:
    argv = [sys.executable, "-c", PARENT.format(options=options), str(tmp_path / "log"), *DEAF]
    with child_process(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        until(lambda: "deaf" in (tmp_path / "log").read_text(), "the child to ignore signals")
        parent.kill()
        assert select.select([child], [], [], DEADLINE)[0], "the child outlived its parent"
    os.close(child)


def test_a_child_on_a_leash_may_end_by_itself(tmp_path: Path) -> None:
    child = Child("child", ["sleep", "60"], tmp_path / "log", orphan_signal=signal.SIGINT)
    child.start()
    leash = child.leash
    assert child.process is not None
    assert leash is not None
    child.process.kill()
    assert leash.wait(DEADLINE) == 0
    child.stop()


def test_a_child_that_ignores_every_signal_is_stopped(tmp_path: Path) -> None:
    child = Child("child", DEAF, tmp_path / "log", patience=0.1)
    child.start()
    until(lambda: "deaf" in (tmp_path / "log").read_text(), "the child to ignore signals")
    child.stop()
    assert child.exited() == -signal.SIGKILL


def test_a_start_that_fails_is_tried_again(tmp_path: Path) -> None:
    """As when the machine has no process, memory or file to give at that moment."""
    failing, said = [OSError(errno.EAGAIN, "Resource temporarily unavailable")] * 2, []

    def begin(*arguments: Any) -> RunningProcess:
        if child.process is not None and failing:
            raise failing.pop()
        return execute(*arguments)

    child = Child("child", ["true"], tmp_path / "log", begin=begin)
    child.start()
    child.process.wait(DEADLINE)
    now = time.monotonic()
    for _ in range(4):
        child.revive(now, said.append)
        now += LONGEST_DELAY
    assert [line.partition(".")[0] for line in said] == [
        "child exited with 0",
        *["child did not start: Resource temporarily unavailable"] * 2,
    ]
    assert child.process.wait(DEADLINE) == 0
    child.revive(now, said.append)
    assert said[3].startswith("child exited with 0")


def test_a_child_that_got_no_leash_is_started_again_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child, said = Child("child", ["sleep", "60"], tmp_path / "log", orphan_signal=signal.SIGINT), []
    child.start()
    child.process.kill()
    child.process.wait(DEADLINE)
    now = time.monotonic()
    child.revive(now, said.append)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(tmp_path / "none"))
        child.revive(now + LONGEST_DELAY, said.append)
    assert child.process.wait(DEADLINE) == -signal.SIGKILL
    assert child.leash is None
    child.revive(now + 3 * LONGEST_DELAY, said.append)
    assert child.exited() is None
    assert child.leash is not None
    assert len(said) == 2
    child.stop()


def test_a_fork_that_fails_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    child = Child("child", ["python", "-m", "none"], tmp_path / "log", begin=fork)
    before = descriptors()
    monkeypatch.setattr(os, "fork", fail)
    with pytest.raises(BlockingIOError):
        child.start()
    assert descriptors() == before


def test_a_fork_that_fails_is_tried_again(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path / "begun")], cwd=ROOT, timeout=DEADLINE, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert b"No process of the work could start: Resource temporarily unavailable." in done.stderr


def test_forks_under_nohup_outlive_their_terminal() -> None:
    done = subprocess.run(["nohup", sys.executable, "-c", HUNG_UP], cwd=ROOT, timeout=DEADLINE, capture_output=True)
    assert done.returncode == 3, done.stderr


def test_a_guard_that_cannot_start_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    stopping, said = threading.Event(), []
    stopping.set()
    ours = Servers("", "", "", "", "")
    bring_back(ours, tmp_path, stopping, said.append)  # nothing can open its log
    log = f"{tmp_path}/logs/embedded.log is not usable (No such file or directory)"
    assert said[1] == f"topics: {log}: remove the file, or change its owner. Next attempt in 5 s"


def test_a_child_gets_its_stop_signal_once(tmp_path: Path) -> None:
    program = "trap 'echo asked' TERM; echo ready; for n in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done"
    child = Child("child", ["sh", "-c", program], tmp_path / "log")
    child.start()
    until(lambda: "ready" in child.log.read_text(), "the child to start")
    child.ask_to_stop()
    until(lambda: "asked" in child.log.read_text(), "the signal to arrive")
    child.stop()
    assert child.log.read_text().splitlines() == ["ready", "asked"]
    assert child.exited() == 0


def test_a_child_gets_its_harsh_signal_before_it_is_killed(tmp_path: Path) -> None:
    says = ["sh", "-c", "trap '' TERM; trap 'echo harsh; exit' QUIT; echo deaf; while :; do sleep 0.1; done"]
    child = Child("child", says, tmp_path / "log", patience=0.1, harsh_signal=signal.SIGQUIT)
    child.start()
    until(lambda: "deaf" in (tmp_path / "log").read_text(), "the child to ignore signals")
    child.stop()
    assert (tmp_path / "log").read_text() == "deaf\nharsh\n"


def test_a_log_is_bounded_while_the_child_writes(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    child = Child("child", ["sh", "-c", "while :; do echo something; done"], log, longest_log=10_000)
    child.start()
    for _ in range(5):
        until(lambda: log.stat().st_size > 10_000, "the log to grow")
        child.bound_log()
        assert (tmp_path / "child.log.old").stat().st_size > 10_000
    child.stop()
    assert b"\0" not in log.read_bytes()  # it goes on at the beginning, not where it was
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
