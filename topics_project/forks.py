"""Processes that begin as a copy of this one, so that what is loaded once need not be loaded again.

To load Django and every app takes more than a second of a core. The supervisor has them loaded; the web server, the
workers and beat each run their own program in a fork of it, and share the memory of all that code.
"""

from __future__ import annotations

import math
import multiprocessing.process
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from setproctitle import setproctitle

LOOK_SECONDS = 0.01  # between two looks whether it has ended
CONTEXT = multiprocessing.get_context("fork")


def fork(argv: Sequence[str], output: BinaryIO, env: Mapping[str, str], before_it_runs: Callable[[], object]) -> Fork:
    """Begin `python -m MODULE …` in a fork (embedded/children.py says what it is given). Whoever calls has no thread but
    the main one, and no connection open, which the fork would go on to use."""

    def become() -> None:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        before_it_runs()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.environ.update(env)
        run(argv)

    # A signal that comes before the fork has put our handlers aside would be taken by its copy of them, and be lost.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        process = CONTEXT.Process(target=become)
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return Fork(process)


def run(argv: Sequence[str]) -> None:
    """Be what this command line starts, under its name."""
    setproctitle(" ".join(argv))
    _python, _m, module, *arguments = argv
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


class Fork:
    """A process that began as a fork, as subprocess.Popen has one."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        assert process.pid is not None, "it has been started"
        self.process, self.pid = process, process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Returns what it ended with. Raises subprocess.TimeoutExpired where it has not ended after so many seconds."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        # Not multiprocessing's own join(): that waits for the processes that this one has begun, too.
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(LOOK_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)
