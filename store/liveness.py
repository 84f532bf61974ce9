"""Checks whether PostgreSQL answers, for an event loop whose requests wait for it.

A statement can be slow while PostgreSQL works well: it waits for a lock, or reads a lot. So when a request has waited for
SLOW_SECONDS, the loop tries to open a new connection. If this works, the slow statement continues up to its own limit.

If no answer comes at all, PostgreSQL is away: it was stopped, or the network drops packets. Then all waiting requests fail, and
new requests fail at once, until a new connection works.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import psycopg
from django.db import connections

from base.descriptors import reserve
from base.per_loop import PerLoop
from base.slot import Slot

log = logging.getLogger(__name__)
T = TypeVar("T")

TICK_SECONDS = 0.25  # between two checks of the waiting requests
SLOW_SECONDS = 0.5  # after this wait the loop checks whether PostgreSQL answers
# Ticks until a probe counts as failed. With the two times above, a waiting request fails within 2.5 s. The unit is ticks, because
# an overloaded machine or loop delays not only PostgreSQL's answer but also our ticks.
PROBE_TICKS = 7
AWAY = "PostgreSQL does not answer"

when_away: Slot[Callable[[], None]] = Slot()  # called each time when PostgreSQL is found to be away


class Waiting(Protocol):
    """A wait for PostgreSQL. `since`: its start by the loop's clock. `most`: its limit in seconds."""

    since: float
    most: float

    def give_up(self, error: psycopg.OperationalError) -> None:
        """End the wait and raise this error."""


class Liveness:
    """The waits for PostgreSQL in one event loop, and PostgreSQL's state as that loop knows it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting: dict[Waiting, None] = {}  # the longest wait is first
        self.away = False
        self.probed = 0.0
        self.heard = 0.0  # time of PostgreSQL's last answer in this loop
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
        """Returns the result of a future that waits for PostgreSQL, for at most `most` seconds.

        When the wait is given up, this cancels the future, calls `hang_up` and raises psycopg.OperationalError.
        """
        waiting = AnswerWait(future, most, hang_up)
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
        """Check the waits at each tick, until no wait is left and PostgreSQL answers."""
        try:
            while self.waiting or self.away:
                await asyncio.sleep(TICK_SECONDS)
                await self.look()
        finally:
            self.watching = None

    async def look(self) -> None:
        """End the waits that have reached their limit. Probe PostgreSQL if a wait is long and no answer came meanwhile."""
        now = self.loop.time()
        slow = [each for each in self.waiting if now - each.since > SLOW_SECONDS]
        for each in slow:
            if now - each.since > each.most:
                self.leave(each)
                each.give_up(psycopg.errors.QueryCanceled(f"no answer within {each.most:.0f} s"))
        if self.away or (slow and now - max(self.heard, self.probed) > SLOW_SECONDS):
            await self.probe()
            self.probed = self.loop.time()

    async def probe(self) -> None:
        """Open a connection, which needs a working backend. PostgreSQL is away if no answer comes, and back if this succeeds.

        A refusal changes nothing: PostgreSQL is restarting, or has no free connection. A request whose backend is gone gets an
        error from its own connection.
        """
        began = self.loop.time()
        with reserve.room():
            connecting = asyncio.ensure_future(psycopg.AsyncConnection.connect(**parameters()))
            try:
                for _ in range(PROBE_TICKS):
                    await asyncio.wait((connecting,), timeout=TICK_SECONDS)
                    if connecting.done():
                        self.tell(connecting.exception())
                        return
                if not self.away and self.heard < began:  # no answer came meanwhile
                    self.lose()
            finally:
                connecting.cancel()
                connecting.add_done_callback(discard)

    def tell(self, error: BaseException | None) -> None:
        """Note the result of a probe. `error`: the refusal, or None for a connection."""
        if error is not None and not self.away:
            log.warning("PostgreSQL refused a connection: %s. The server retries", error)
        elif error is None and self.away:
            log.warning("PostgreSQL answers again")
            self.away = False

    def lose(self) -> None:
        """Note that PostgreSQL is away, and end all waits."""
        log.error(
            "%s. Answered %d waiting requests with 503. New requests get 503 until PostgreSQL answers",
            AWAY,
            len(self.waiting),
        )
        self.away = True
        waiting, self.waiting = list(self.waiting), {}
        for each in waiting:
            each.give_up(psycopg.OperationalError(AWAY))
        when_away.value()


class AnswerWait:
    """A wait for the result of a future."""

    def __init__(self, future: asyncio.Future[Any], most: float, hang_up: Callable[[], None] | None) -> None:
        self.future, self.most, self.hang_up, self.since = future, most, hang_up, 0.0
        self.error: psycopg.OperationalError | None = None

    def give_up(self, error: psycopg.OperationalError) -> None:
        self.error = error
        if self.hang_up is not None:
            self.hang_up()
        self.future.cancel()


def discard(connecting: asyncio.Task[psycopg.AsyncConnection]) -> None:
    """Close the connection of a finished probe, which has no user."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().pgconn.finish()


def parameters() -> dict[str, Any]:
    """Returns Django's connection parameters."""
    options: dict[str, Any] = connections["default"].get_connection_params()
    options.pop("cursor_factory", None)
    options.pop("context", None)
    return {**options, "autocommit": True}


here = PerLoop(Liveness).here
