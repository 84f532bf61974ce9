"""Child processes of the supervisor and of the embedded servers' guard: logs, restarts and shutdown.

A child never outlives its parent, however the parent ends: the kernel kills the child (prctl(2)). The kernel sends the signal
only once, and a starting process can lose any signal except SIGKILL, or can ignore the signal. So the signal is SIGKILL, and
all stored data survives a SIGKILL. PostgreSQL is the exception: PostgreSQL gets a softer signal first, to flush its data, and
has a watcher (leash.py).
"""

import contextlib
import http.client
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
from embedded import leash
from embedded.folder import open_log, shorten

FIRST_DELAY, LONGEST_DELAY = 0.5, 15.0  # seconds before an exited child is started again
LONGEST_LOG = 64 * 2**20  # bytes; a longer log is moved aside and replaces the previous old log
STEADY = 30.0  # seconds; a child that ran this long restarts with the first delay
QUIT_SECONDS = 10.0  # that a child has after `harsh_signal`


class RunningProcess(Protocol):
    """A process with the interface of subprocess.Popen."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...


# Starts a process. Arguments: the command line, the output file, additional environment variables, and a function that runs in
# the process before the program. The process has its own session. So Ctrl-C reaches only the supervisor, which stops the
# children in order.
Begin = Callable[[Sequence[str], BinaryIO, Mapping[str, str], Callable[[], object]], RunningProcess]


def execute(
    argv: Sequence[str], output: BinaryIO, env: Mapping[str, str], before_it_runs: Callable[[], object]
) -> RunningProcess:
    """Starts any program."""
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
    patience: float = 20.0  # seconds from the stop signal to the next signal
    harsh_signal: signal.Signals | None = None  # sent after `patience` to a child that SIGKILL would damage
    # From the kernel when the parent exits; with another signal the child is on a leash.
    orphan_signal: signal.Signals = signal.SIGKILL
    longest_log: int = LONGEST_LOG
    begin: Begin = execute
    orphans: Callable[[], list[int]] = (
        list  # returns the processes outside of its group that an exited child left behind
    )
    process: RunningProcess | None = None
    leash: subprocess.Popen[bytes] | None = None
    is_asked_to_stop: bool = False
    started: float = 0.0
    delay: float = FIRST_DELAY
    due: float = 0.0

    def start(self) -> None:
        """Raises OSError if this machine has no process, memory or file for the child."""
        self.bound_log()
        parent = os.getpid()
        with open_log(self.log) as log:
            self.process = self.begin(self.argv, log, self.env, lambda: self._before_it_runs(parent))
            if self.orphan_signal != signal.SIGKILL and hasattr(os, "pidfd_open"):
                signals = [f"{number}:{seconds}" for number, seconds in self._ways_to_end(self.orphan_signal)]
                argv = [sys.executable, "-I", leash.__file__, str(parent), str(self.process.pid), *signals]
                try:
                    self.leash = subprocess.Popen(
                        argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                    )
                except OSError:
                    self._kill_group()  # it has just begun, and must not run without a leash
                    raise
        self.started, self.is_asked_to_stop = time.monotonic(), False

    def _before_it_runs(self, parent: int) -> None:
        """Restores signal handling in the new process.

        A process in a shell's background ignores SIGINT and SIGQUIT, and its children inherit that. The stop signals must reach
        this process.
        """
        for number, _ in self._ways_to_end(self.stop_signal):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent(parent, self.orphan_signal)

    def exited(self) -> int | None:
        return self.process.poll() if self.process else None

    def revive(self, now: float, say: Callable[[str], object]) -> None:
        """Restarts an exited child after growing delays. Each call is one bounded step of the caller's loop."""
        code = self.exited()
        if code is None:
            return
        if not self.due:
            self._kill_group()
            self._delay(FIRST_DELAY if now - self.started > STEADY else self.delay * 2, now)
            say(f"{self.name} exited with {code}. Starting again in {self.delay:.0f} s ({self.log})")
        elif now >= self.due:
            try:
                self.start()
                self.due = 0.0
            except OSError as error:
                self._delay(self.delay * 2, now)
                say(f"{self.name} did not start: {error.strerror}. Next attempt in {self.delay:.0f} s")

    def _delay(self, seconds: float, now: float) -> None:
        self.delay = min(seconds, LONGEST_DELAY)
        self.due = now + self.delay

    def bound_log(self) -> None:
        """Moves a long log aside. Each call is one bounded step of the caller's loop."""
        shorten(self.log, self.longest_log)

    def ask_to_stop(self) -> None:
        """Sends the stop signal, but only once: to many programs a second one means "at once"."""
        if not self.is_asked_to_stop:
            self._send(self.stop_signal)
        self.is_asked_to_stop = True

    def stop(self) -> None:
        if self.process is None:
            return
        self.ask_to_stop()
        (_, patience), *harsher = self._ways_to_end(self.stop_signal)
        self._wait(patience)
        for number, seconds in harsher:
            self._send(number)
            self._wait(seconds)
        self._kill_group()
        self.process.wait()

    def _ways_to_end(self, first: signal.Signals) -> list[tuple[int, float]]:
        """Returns the stop signals, each with the seconds to wait. A final SIGKILL is not in the list."""
        ways = [(int(first), self.patience)]
        return [*ways, (int(self.harsh_signal), QUIT_SECONDS)] if self.harsh_signal else ways

    def _send(self, number: int) -> None:
        if self.process and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def _wait(self, seconds: float) -> None:
        if self.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)

    def _kill_group(self) -> None:
        """Kills the processes that the child left behind. The child leads its own session, so its pid is the group's id."""
        if self.process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        for orphan in self.orphans():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(orphan, signal.SIGKILL)
        if self.leash:
            self.leash.kill()
            self.leash.wait()
            self.leash = None


def answers(host: str, port: int, path: str) -> bool:
    """Returns whether an HTTP server answers this path with 200."""
    client = http.client.HTTPConnection(host, port, timeout=5)
    try:
        client.request("GET", path)
        return client.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


def stop_all(children: Sequence[Child]) -> None:
    """Stops all children at the same time. Each child gets its patience."""
    for child in children:
        child.ask_to_stop()
    for child in children:
        child.stop()
