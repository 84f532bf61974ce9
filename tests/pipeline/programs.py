"""Programs that start a Spark of their own, and are killed with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from base.processes import die_with_parent
from tests.instances import ROOT

Start = Callable[..., subprocess.Popen[bytes]]


@contextlib.contextmanager
def programs(environment: Mapping[str, str], output: Path) -> Iterator[Start]:
    """Yields what starts a Python program, in a session of its own. At the end, all programs are killed."""
    started: list[subprocess.Popen[bytes]] = []
    parent = os.getpid()

    def run(*argv: str, **more: str) -> subprocess.Popen[bytes]:
        with output.open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, *argv],
                env={**os.environ, **environment, **more},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent),  # and its JVM with it
            )
        started.append(process)
        return process

    yield run
    for process in started:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the driver and its JVM."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
