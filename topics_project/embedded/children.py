"""Child processes of the supervisor and of the embedded servers' guard: a log each, one restart policy, one way down.

A child never outlives its parent, whatever killed that: the kernel kills it (prctl(2)). SIGKILL, since any other
signal is lost on a process that gets it while it starts, or that ignores it, and the kernel sends it only once. All
that we keep survives that. PostgreSQL alone is asked first, for what it has not flushed yet, and is watched (leash.py).
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from base.processes import die_with_parent
from topics_project.embedded import leash
from topics_project.embedded.folder import open_log, shorten

FIRST_DELAY, LONGEST_DELAY = 0.5, 15.0  # seconds before a child that died is started again
LONGEST_LOG = 64 * 2**20  # bytes; a log that grew past it is put aside, and what was put aside before is gone
STEADY = 30.0  # a child that lived this long is forgiven what it did before
QUIT_SECONDS = 10.0  # that a child has after `harsh_signal`


class Running(Protocol):
    """A process, as subprocess.Popen has it."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...


# What begins a process: its command line, where its output goes, what its environment has beside ours, and what is done
# in it before it runs. It has a session of its own: Ctrl-C reaches the supervisor only, which takes the children down in
# order.
Begin = Callable[[Sequence[str], BinaryIO, Mapping[str, str], Callable[[], object]], Running]


def execute(
    argv: Sequence[str], output: BinaryIO, env: Mapping[str, str], before_it_runs: Callable[[], object]
) -> Running:
    """Begin any program."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**os.environ, **env},
        start_new_session=True,
        preexec_fn=before_it_runs,
    )


@dataclass
class Child:
    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    patience: float = 20.0  # seconds it gets to end before it is killed
    harsh_signal: signal.Signals | None = None  # sent after its patience to a child that SIGKILL would end badly
    orphan_signal: signal.Signals = signal.SIGKILL  # what the kernel sends it when we die; if another, it is on a leash
    longest_log: int = LONGEST_LOG
    begin: Begin = execute
    process: Running | None = None
    leash: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    delay: float = FIRST_DELAY
    due: float = 0.0

    def start(self) -> None:
        self.bound_log()
        parent = os.getpid()
        with open_log(self.log) as log:
            self.process = self.begin(self.argv, log, self.env, lambda: self._before_it_runs(parent))
            if self.orphan_signal != signal.SIGKILL and hasattr(os, "pidfd_open"):
                signals = [f"{number}:{seconds}" for number, seconds in self._ways_to_end(self.orphan_signal)]
                argv = [sys.executable, "-I", leash.__file__, str(parent), str(self.process.pid), *signals]
                self.leash = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        self.started = time.monotonic()

    def _before_it_runs(self, parent: int) -> None:
        """In the new process. What runs in a shell's background ignores SIGINT and SIGQUIT, and its children would inherit
        that: the signals that are to end this one have to reach it."""
        for number, _ in self._ways_to_end(self.stop_signal):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent(parent, self.orphan_signal)

    def exited(self) -> int | None:
        return self.process.poll() if self.process else None

    def revive(self, now: float, say: Callable[[str], object]) -> None:
        """Start it again if it died, at growing intervals. One bounded step; the loop is the caller's."""
        code = self.exited()
        if code is None:
            return
        if not self.due:
            self._kill_group()
            self.delay = FIRST_DELAY if now - self.started > STEADY else min(self.delay * 2, LONGEST_DELAY)
            self.due = now + self.delay
            say(f"{self.name} ended with {code}; again in {self.delay:.0f} s ({self.log})")
        elif now >= self.due:
            self.due = 0.0
            self.start()

    def bound_log(self) -> None:
        """Put the log aside if it grew too long. One bounded step; the loop is the caller's."""
        shorten(self.log, self.longest_log)

    def ask_to_stop(self) -> None:
        self._send(self.stop_signal)

    def stop(self) -> None:
        if self.process is None:
            return
        for number, seconds in self._ways_to_end(self.stop_signal):
            if self.process.poll() is None:
                self._send(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(seconds)
        self._kill_group()
        self.process.wait()

    def _ways_to_end(self, first: signal.Signals) -> list[tuple[int, float]]:
        """The signals that end it, and the seconds it has after each; SIGKILL comes last by itself."""
        ways = [(int(first), self.patience)]
        return [*ways, (int(self.harsh_signal), QUIT_SECONDS)] if self.harsh_signal else ways

    def _send(self, number: int) -> None:
        if self.process and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def _kill_group(self) -> None:
        """What the child itself left behind: it had a session of its own, so its pid is the group's."""
        if self.process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        if self.leash:
            self.leash.kill()
            self.leash.wait()
            self.leash = None


def stop_all(children: Sequence[Child]) -> None:
    """All at once; each gets its patience."""
    for child in children:
        child.ask_to_stop()
    for child in children:
        child.stop()
