"""Processes that do the same work as forks of one process. The first process only supervises: it restarts processes that exit,
and hands on signals."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable

from base.outage import Pace
from base.processes import die_with_parent
from base.signals import ending_signals

log = logging.getLogger(__name__)
REST_SECONDS = 0.5  # before an exited process is started again


def run(
    count: int,
    work: Callable[[int], int],
    *,
    name: str,
    reloads: bool = False,
    patience: float | None = None,
    orphan_signal: signal.Signals = signal.SIGKILL,
) -> int:
    """Runs `work` in `count` forks until a signal ends them. Returns the worst exit code.

    `work` gets the slot of its process, from 0, and returns an exit code. SIGTERM and SIGINT end the processes. SIGHUP ends them,
    too, unless the work `reloads`, or this process ignores SIGHUP. Processes that take longer than `patience` (s) are killed. If
    this process is killed, the kernel sends `orphan_signal` to the others. `name` stands for all of them in the log.
    """
    taken = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if reloads else ending_signals()
    children: dict[int, int] = {}  # the slot of each process
    ending = False
    parent = os.getpid()

    def start(slot: int) -> None:
        # A signal that arrives during the fork waits until both processes are ready for it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, taken)
        try:
            child = os.fork()
            if child:
                children[child] = slot
                return
            for number in taken:
                signal.signal(number, signal.SIG_DFL)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = 1
        try:
            die_with_parent(parent, orphan_signal)
            code = work(slot)
        except Exception:
            log.exception("A process of the %s failed", name)
        finally:
            sys.stdout.flush()
            os._exit(code)

    def start_again(slot: int) -> None:
        """Starts another process. The machine can have no process or memory to give for a while."""
        pace = Pace()
        time.sleep(REST_SECONDS)
        while not ending:
            try:
                start(slot)
                break
            except OSError as error:
                if pace.is_due():
                    log.error("No process of the %s could start: %s. It is tried again", name, error.strerror)
                time.sleep(REST_SECONDS)

    def send(number: int) -> None:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    def hand_on(number: int, _: object) -> None:
        nonlocal ending
        if not (reloads and number == signal.SIGHUP):
            if patience is not None and not ending:
                signal.setitimer(signal.ITIMER_REAL, patience)
            ending = True
        send(number)

    signal.signal(signal.SIGALRM, lambda *_: send(signal.SIGKILL))
    for number in taken:
        signal.signal(number, hand_on)
    for slot in range(count):
        start(slot)
    worst = 0
    while children:
        child, status = os.waitpid(-1, 0)
        slot, code = children.pop(child), os.waitstatus_to_exitcode(status)
        worst = max(worst, code)
        if not ending:
            log.error("Process %d of the %s exited with %d. Starting another process", child, name, code)
            worst = 0
            start_again(slot)
    return worst
