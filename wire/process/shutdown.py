"""Graceful shutdown: on SIGTERM the streams end, the running requests finish, and only then the web server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from base.errors import ShuttingDown
from base.slot import Slot
from wire import limits

# Must be shorter than the time after which the web server kills a worker (topics_project/web.py).
PATIENCE_SECONDS = 3.0
LOOK_SECONDS = 0.02


class Holder(NamedTuple):
    """A part of the process that holds requests open. `end` is called when the shutdown begins. The shutdown waits while `busy`
    returns True."""

    end: Callable[[], None]
    busy: Callable[[], bool]


holders: Slot[Sequence[Holder]] = Slot()


class Shutdown:
    """The shutdown of this process, which begins with a signal."""

    def __init__(self) -> None:
        self.has_begun = False

    def begun(self) -> bool:
        return self.has_begun

    def check(self) -> None:
        """Raises ShuttingDown if this process is shutting down."""
        if self.has_begun:
            raise ShuttingDown("this server is shutting down: send the request again to another server")

    def begin(self, loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
        """Begin the shutdown after a signal.

        Ctrl-C in a terminal reaches this process and the first process of the web server, which hands it on. So a second signal
        must not cut the shutdown short. It is short anyway.
        """
        if self.has_begun:
            return
        self.has_begun = True
        for holder in holders.value:
            holder.end()
        loop.create_task(drain(stop))


process = Shutdown()
begun, check, begin = process.begun, process.check, process.begin


async def drain(stop: Callable[[], None]) -> None:
    """Wait until no request is under way, but at most PATIENCE_SECONDS. Then stop."""
    # The loop counts its steps instead of reading a clock. A clock advances while this process does not run (a busy machine, a
    # SIGSTOP). Clients that send a request meanwhile would be cut off without an answer.
    for _ in range(round(PATIENCE_SECONDS / LOOK_SECONDS)):
        if not limits.in_flight and not any(holder.busy() for holder in holders.value):
            break
        await asyncio.sleep(LOOK_SECONDS)
    stop()
