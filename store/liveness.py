"""Whether PostgreSQL answers, for an event loop whose requests wait for it.

A statement may be slow while PostgreSQL is well: it waits for a lock, or reads a lot. So when somebody has waited for
SLOW_SECONDS, we try to connect anew. If that works, the slow statement goes on up to its own limit. If nothing comes back at
all, PostgreSQL is away: it was stopped, or the network swallows what we send. Then everybody who waits is told, and everybody
who comes is told at once, until we can connect again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import psycopg
from django.db import connections

log = logging.getLogger(__name__)
T = TypeVar("T")

TICK_SECONDS = 0.25  # between two looks at those who wait
SLOW_SECONDS = 0.5  # after which we ask whether PostgreSQL is still there
# For it to say so; with the two above, who waits is told within 2.5 s. Ticks and not seconds: on a machine or in a loop that has
# too much to do, PostgreSQL answers late, but our own ticks come late as well.
PROBE_TICKS = 7
AWAY = "PostgreSQL does not answer"

when_away: list[Callable[[], None]] = []  # called once each time PostgreSQL turns out to be away


class Waiting(Protocol):
    """Somebody who waits for PostgreSQL: since when (by the loop's clock), and for how many seconds at most."""

    since: float
    most: float

    def give_up(self, error: psycopg.OperationalError) -> None:
        """Wait no longer, and raise this error."""


class Liveness:
    """Those who wait in one event loop, and what is known of PostgreSQL there."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting: dict[Waiting, None] = {}  # who has waited longest comes first
        self.away = False
        self.probed = 0.0
        self.heard = 0.0  # when PostgreSQL last answered anything here
        self.watching: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raises psycopg.OperationalError while PostgreSQL is known to be away."""
        if self.away:
            raise psycopg.OperationalError(AWAY)

    def enter(self, waiting: Waiting) -> None:
        waiting.since = self.loop.time()
        self.waiting[waiting] = None
        if self.watching is None:
            self.watching = self.loop.create_task(self.watch())

    def leave(self, waiting: Waiting) -> None:
        self.waiting.pop(waiting, None)

    async def answered(self, future: asyncio.Future[T], most: float, hang_up: Callable[[], None] | None = None) -> T:
        """The result of a future that waits for PostgreSQL. When it is given up, the future is cancelled and `hang_up` called.

        Raises psycopg.OperationalError then.
        """
        waiting = Answer(future, most, hang_up)
        self.enter(waiting)
        try:
            return await future
        except asyncio.CancelledError:
            if waiting.error is not None:
                raise waiting.error from None
            raise
        finally:
            self.leave(waiting)

    async def watch(self) -> None:
        """Look after those who wait, for as long as anybody does."""
        try:
            while self.waiting or self.away:
                await asyncio.sleep(TICK_SECONDS)
                await self.look()
        finally:
            self.watching = None

    async def look(self) -> None:
        """Give up those whose time is up. Where somebody has waited long, and nobody was answered meanwhile, find out whether
        PostgreSQL is there."""
        now = self.loop.time()
        slow = [each for each in self.waiting if now - each.since > SLOW_SECONDS]
        for each in slow:
            if now - each.since > each.most:
                self.leave(each)
                each.give_up(psycopg.errors.QueryCanceled(f"no answer came within {each.most:.0f} s"))
        if self.away or (slow and now - max(self.heard, self.probed) > SLOW_SECONDS):
            await self.probe()
            self.probed = self.loop.time()

    async def probe(self) -> None:
        """Connect, which takes a backend that works. Silence tells that PostgreSQL is away; only success, that it is back.

        A refusal tells nothing new: PostgreSQL restarts, or has no connection to spare. Who waits for one that is gone hears so.
        """
        began = self.loop.time()
        connecting = asyncio.ensure_future(psycopg.AsyncConnection.connect(**parameters()))
        try:
            for _ in range(PROBE_TICKS):
                await asyncio.wait((connecting,), timeout=TICK_SECONDS)
                if connecting.done():
                    self.tell(connecting.exception())
                    return
            if not self.away and self.heard < began:  # else something was answered meanwhile
                self.lose()
        finally:
            connecting.cancel()
            connecting.add_done_callback(discard)

    def tell(self, error: BaseException | None) -> None:
        """Take note of how it went to connect."""
        if error is not None and not self.away:
            log.warning("PostgreSQL refuses a connection: %s", error)
        elif error is None and self.away:
            log.warning("PostgreSQL answers again")
            self.away = False

    def lose(self) -> None:
        """PostgreSQL is away."""
        log.error("%s: %d requests are told so, and all that come from now on", AWAY, len(self.waiting))
        self.away = True
        waiting, self.waiting = list(self.waiting), {}
        for each in waiting:
            each.give_up(psycopg.OperationalError(AWAY))
        for tell in when_away:
            tell()


class Answer:
    """Somebody who waits for the result of a future."""

    def __init__(self, future: asyncio.Future[Any], most: float, hang_up: Callable[[], None] | None) -> None:
        self.future, self.most, self.hang_up, self.since = future, most, hang_up, 0.0
        self.error: psycopg.OperationalError | None = None

    def give_up(self, error: psycopg.OperationalError) -> None:
        self.error = error
        if self.hang_up is not None:
            self.hang_up()
        self.future.cancel()


def discard(connecting: asyncio.Task[psycopg.AsyncConnection]) -> None:
    """Close what nobody wants, now or when it is there."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().pgconn.finish()


def parameters() -> dict[str, Any]:
    """How to connect: as Django does."""
    options: dict[str, Any] = connections["default"].get_connection_params()
    options.pop("cursor_factory", None)
    options.pop("context", None)
    return {**options, "autocommit": True}


_here: Liveness | None = None


def here() -> Liveness:
    """The liveness of the event loop that runs."""
    global _here
    if _here is None or _here.loop is not asyncio.get_running_loop():
        _here = Liveness()
    return _here
