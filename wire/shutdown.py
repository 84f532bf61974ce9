"""End well: on SIGTERM the streams are told, what is under way is finished, and only then the web server stops.

granian cuts open streams on SIGTERM without telling the application, so its worker hears of the signal from here.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from base.errors import ShuttingDown
from wire import limits

# Below the time after which granian kills a worker that does not end (topics_project/supervisor.py).
PATIENCE_SECONDS = 3.0
LOOK_SECONDS = 0.02

_begun = False
_busy: list[Callable[[], bool]] = []  # what must have ended first
_enders: list[Callable[[], None]] = []


def begun() -> bool:
    return _begun


def check() -> None:
    """Raises ShuttingDown once this process is about to end."""
    if _begun:
        raise ShuttingDown("this server is shutting down: ask again, another one answers")


def before_the_end(tell: Callable[[], None], busy: Callable[[], bool]) -> None:
    """Have `tell` called when the end begins, and wait for as long as `busy` says so."""
    _enders.append(tell)
    _busy.append(busy)


def install() -> None:
    """Stand between SIGTERM and granian's worker. Called before the worker sets up its signals."""
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
    """A signal came. A second one does not wait."""
    global _begun
    if _begun:
        stop()
        return
    _begun = True
    for tell in _enders:
        tell()
    loop.create_task(drain(stop))


async def drain(stop: Callable[[], None]) -> None:
    """Wait until nothing is under way, then stop; after PATIENCE_SECONDS in any case."""
    # Looks are counted, and no clock is asked: while this process does not run (a machine that is busy, a SIGSTOP), the
    # clock goes on, and whoever asked meanwhile would be cut off without an answer.
    for _ in range(round(PATIENCE_SECONDS / LOOK_SECONDS)):
        if not limits.in_flight and not any(busy() for busy in _busy):
            break
        await asyncio.sleep(LOOK_SECONDS)
    stop()
