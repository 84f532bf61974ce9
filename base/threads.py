"""Threads that a process has from its start to its end, such as the one of its heartbeats."""

from __future__ import annotations

import threading
from collections.abc import Callable

from base.refusal import Refusal


def start_thread(name: str, work: Callable[..., object], *arguments: object) -> None:
    """Starts a thread that ends with the process. Raises Refusal if this machine has none to give, and so ends the process.

    Its supervisor starts it again. Celery only logs any other error of what it calls at the start, and the process would continue
    without the thread.
    """
    try:
        threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
    except RuntimeError as error:
        raise Refusal(f"the thread {name!r} did not start ({error}): allow more threads or processes.") from error
