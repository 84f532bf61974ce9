"""Graceful shutdown: on SIGTERM the streams end, the running requests finish, and only then the web server stops.

granian cuts open streams on SIGTERM without telling the application. Therefore this module handles the signal first.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from base.errors import ShuttingDown
from wire import limits

# Must be shorter than the time after which granian kills a worker (topics_project/supervisor.py).
PATIENCE_SECONDS = 3.0
LOOK_SECONDS = 0.02

_begun = False
_busy: list[Callable[[], bool]] = []  # shutdown waits until all of these return False
_enders: list[Callable[[], None]] = []


def begun() -> bool:
    return _begun


def check() -> None:
    """Raises ShuttingDown if this process is shutting down."""
    if _begun:
        raise ShuttingDown("this server is shutting down: ask again, another one answers")


def before_the_end(tell: Callable[[], None], busy: Callable[[], bool]) -> None:
    """Register `tell`, which is called when the shutdown begins. The shutdown waits while `busy` returns True."""
    _enders.append(tell)
    _busy.append(busy)


def install() -> None:
    """Handle SIGTERM before granian's worker. Called before the worker sets up its signals."""
    from granian import _signals

    granians = _signals.set_loop_signals
    if getattr(granians, "drains", False):
        return

    def set_loop_signals(loop: asyncio.AbstractEventLoop) -> Any:
        stop = granians(loop)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, begin, loop, stop.set)
        return stop

    set_loop_signals.drains = True  # type: ignore[attr-defined]
    _signals.set_loop_signals = set_loop_signals


def begin(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Begin the shutdown after a signal. A second signal stops the server at once."""
    global _begun
    if _begun:
        stop()
        return
    _begun = True
    for tell in _enders:
        tell()
    loop.create_task(drain(stop))


async def drain(stop: Callable[[], None]) -> None:
    """Wait until no request is under way, but at most PATIENCE_SECONDS. Then stop."""
    # The loop counts its steps instead of reading a clock. A clock advances while this process does not run (a busy machine, a
    # SIGSTOP). Clients that send a request meanwhile would be cut off without an answer.
    for _ in range(round(PATIENCE_SECONDS / LOOK_SECONDS)):
        if not limits.in_flight and not any(busy() for busy in _busy):
            break
        await asyncio.sleep(LOOK_SECONDS)
    stop()
