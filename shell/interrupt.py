"""Ctrl-C in a command that runs until then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 128 + 2  # exit code that a shell reports for a process that SIGINT ended


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Ctrl-C ends the process at once. Nothing is cleaned up, and output that was not flushed is discarded.

    By default Python raises KeyboardInterrupt, wherever the process is. In a finalizer Python drops the exception. In urllib3's
    queue of connections it leaves a lock behind, for which the process then waits for ever.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # otherwise the process was started to ignore Ctrl-C
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
