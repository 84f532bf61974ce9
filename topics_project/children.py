"""Child processes of the supervisor and of the embedded servers' guard: a log each, one restart policy, one way down.

A child never outlives its parent: the kernel signals it when the parent dies, whatever killed that (prctl(2)).
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
FIRST_DELAY, LONGEST_DELAY = 0.5, 15.0  # seconds before a child that died is started again
LONGEST_LOG = 64 * 2**20  # bytes; a longer one is put aside at the next start
STEADY = 30.0  # a child that lived this long is forgiven what it did before


def die_with_parent(parent: int | None = None, number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent dies. Elsewhere than on Linux: nothing.

    `parent` is the one it was started by: should that be dead by now, the kernel would wait for the death of another.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), number)


@dataclass
class Child:
    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    patience: float = 20.0  # seconds it gets to end before it is killed
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    delay: float = FIRST_DELAY
    due: float = 0.0

    def start(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LONGEST_LOG:
            self.log.replace(self.log.with_suffix(".log.old"))
        parent = os.getpid()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.env},
                # A group of its own: Ctrl-C reaches the supervisor only, which takes the children down in order.
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent, self.stop_signal),
            )
        self.started = time.monotonic()

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

    def ask_to_stop(self) -> None:
        if self.process and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(self.stop_signal)

    def stop(self) -> None:
        if self.process is None:
            return
        self.ask_to_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(self.patience)
        self._kill_group()
        self.process.wait()

    def _kill_group(self) -> None:
        """What the child itself left behind: it had a session of its own, so its pid is the group's."""
        if self.process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def stop_all(children: Sequence[Child]) -> None:
    """All at once; each gets its patience."""
    for child in children:
        child.ask_to_stop()
    for child in children:
        child.stop()
