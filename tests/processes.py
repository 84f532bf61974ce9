"""A process of a test, which ends with its block."""

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from tests.deadlines import DEADLINE


@contextlib.contextmanager
def child_process(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Starts a process, and waits for its end after the block. Kills it if the block or the wait fails.

    The block of subprocess.Popen itself waits for ever, after a failed assertion also for a process that nobody stops.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
            if process.stdin:
                process.stdin.close()  # many read it until its end
            process.wait(DEADLINE)
        except BaseException:
            process.kill()
            raise
