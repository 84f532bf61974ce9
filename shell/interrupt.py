"""Ctrl-C in a command that runs until then."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 128 + 2  # exit code that a shell reports for a process that SIGINT ended


@contextmanager
def on_ctrl_c(handler: Callable[..., Any]) -> Iterator[None]:
    """Calls the handler on Ctrl-C, unless the process was started to ignore Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_at_once(*_: object) -> None:
    """Ends the process. Nothing is cleaned up, and output that was not flushed is discarded.

    By default Python raises KeyboardInterrupt, wherever the process is. In a finalizer Python drops the exception. In urllib3's
    queue of connections it leaves a lock behind, for which the process then waits for ever.
    """
    os._exit(INTERRUPTED)
