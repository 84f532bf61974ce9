"""Locks that another client of PostgreSQL keeps: one list for everything that an event loop writes (docs/concurrency.md).

A step that may meet a lock names it: a head by its topic's id. A lock that was not released in time is held. The steps that want
a held lock wait in its line, one at a time. So a held lock costs the other steps one wait, and not one for each arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from typing import NamedTuple

from django.conf import settings

from base.errors import NotReady
from store.connection import Connection
from store.pool import Pool
from store.script import Statement

# A statement that many share waits this long for a lock. Clients keep one for some ms, or until the disk has their commit.
LONG_MS = 100
HELD_SECONDS = (
    1.0  # a lock counts as held for this long after it was last met: a client that keeps one often does so again
)
PLACES = 4  # held locks that are waited for at once, so that they cannot take every connection


class Turn(NamedTuple):
    """A connection for the step whose turn it is, and how long a statement may wait there for a lock (ms; 0: without a limit)."""

    connection: Connection
    lock_ms: int


class Line:
    """The steps that want one lock."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.steps = 0
        self.since = inf  # when the current turn began
        self.held_until = 0.0


class HeldLocks:
    """Lives in an event loop. `connections`: they wait for a lock as long as TOPICS_LOCK_TIMEOUT_MS allows."""

    def __init__(self, connections: Pool) -> None:
        self.loop = asyncio.get_running_loop()
        self.connections = connections
        self.places = asyncio.Semaphore(PLACES)
        self.lines: dict[Hashable, Line] = {}

    def is_held(self, lock: Hashable) -> bool:
        """Whether a step that wants this lock has to wait in its line."""
        line, now = self.lines.get(lock), self.loop.time()
        return line is not None and (now < line.held_until or now - line.since > LONG_MS / 1000)

    def note(self, lock: Hashable) -> None:
        """A step has waited for this lock for LONG_MS."""
        now = self.loop.time()
        for other, line in list(self.lines.items()):
            if not line.steps and line.held_until <= now:
                del self.lines[other]
        self.lines.setdefault(lock, Line()).held_until = now + HELD_SECONDS

    @asynccontextmanager
    async def turn(self, lock: Hashable) -> AsyncIterator[float]:
        """Our turn among the steps that want this lock. Yields the time at which we must give up. Raises NotReady."""
        deadline = self.loop.time() + (settings.TOPICS_LOCK_TIMEOUT_MS / 1000 or inf)
        line = self.lines.setdefault(lock, Line())
        line.steps += 1
        try:
            await before(deadline, line.turn.acquire())
            line.since = self.loop.time()
            try:
                yield deadline
            finally:
                line.turn.release()
                if self.loop.time() - line.since > LONG_MS / 1000:
                    self.note(lock)
                line.since = inf
        finally:
            line.steps -= 1
            if not line.steps and line.held_until <= self.loop.time():
                self.lines.pop(lock, None)

    @asynccontextmanager
    async def aside(self, lock: Hashable) -> AsyncIterator[Turn]:
        """Our turn, with a connection that no other step needs. Raises NotReady."""
        async with AsyncExitStack() as stack:
            deadline = await stack.enter_async_context(self.turn(lock))
            if self.is_held(lock):
                await before(deadline, self.places.acquire())
                stack.callback(self.places.release)
            connection = await self.connections.take()
            stack.callback(self.connections.give_back, connection)
            yield Turn(connection, 0 if deadline == inf else max(1, int((deadline - self.loop.time()) * 1000)))


async def before(deadline: float, done: Awaitable[object]) -> None:
    """Raises NotReady where this is not done in time."""
    try:
        async with asyncio.timeout_at(None if deadline == inf else deadline):
            await done
    except TimeoutError as error:
        raise NotReady("another request holds the lock of this topic: try again") from error


def limited(lock_ms: int) -> Statement:
    """The first statement of a transaction that may wait this long for each lock."""
    return Statement("SELECT set_config('lock_timeout', %s, true)", (str(lock_ms),))
