"""Starts processes as forks of this process, so that code is loaded only once.

Loading Django and all apps takes more than a second of a core. The supervisor loads them. The web server, the workers and beat
each run their own program in a fork, and share the memory of the code.
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

LOOK_SECONDS = 0.01  # between two checks whether the process has ended
CONTEXT = multiprocessing.get_context("fork")


def fork(argv: Sequence[str], output: BinaryIO, env: Mapping[str, str], before_it_runs: Callable[[], object]) -> Fork:
    """Starts `python -m MODULE …` in a fork (embedded/children.py explains the arguments).

    The caller must have no thread except the main thread, and no open connection, because the fork would share the connection.
    Raises OSError if this machine has no process or memory for it.
    """

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

    # Before the fork resets the handlers, its copies of the handlers would take a signal, and the signal would be lost.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    before = descriptors()
    try:
        process = CONTEXT.Process(target=become)
        process.start()
    except OSError:  # then multiprocessing leaves its pipes open, and the caller tries again and again
        for descriptor in descriptors() - before:
            os.close(descriptor)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return Fork(process)


def descriptors() -> set[int]:
    """Returns the open files of this process, without the one that lists them."""
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")}


def run(argv: Sequence[str]) -> None:
    """Runs the program of this command line in this process, and sets the process title."""
    setproctitle(" ".join(argv))
    _python, _m, module, *arguments = argv
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


class Fork:
    """A forked process with the interface of subprocess.Popen."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        assert process.pid is not None, "the process has already started"
        self.process, self.pid = process, process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        # multiprocessing's own join() would also wait for the children of the process.
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(LOOK_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)
