"""Locks that other clients of PostgreSQL hold. An event loop has one list for all its writes (docs/concurrency.md).

A step names the lock that can make the step wait: a head by its topic's id. If a lock was not released in time, the lock is
held. The steps that want a held lock wait in a line, one at a time. So a held lock costs the other steps one wait in total, and
not one wait for each arrival.
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

# A statement of many steps waits this long for a lock. Clients hold a lock for a few ms, or until their commit is on disk.
LONG_MS = 100
# A lock counts as held for this long after a step last had to wait, because a client that holds a lock often does so again.
HELD_SECONDS = 1.0
PLACES = 2  # held locks that steps wait for at once, so that the waits cannot take every connection


class StepTurn(NamedTuple):
    """A connection for the current step of a line, and the limit of a statement's wait for a lock (ms; 0: no limit)."""

    connection: Connection
    lock_ms: int


class Line:
    """The steps that want the same lock."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.steps = 0
        self.since = inf  # when the current turn began
        self.held_until = 0.0


class HeldLocks:
    """The held locks of an event loop. `connections`: a statement there waits for a lock for at most TOPICS_LOCK_TIMEOUT_MS."""

    def __init__(self, connections: Pool) -> None:
        self.loop = asyncio.get_running_loop()
        self.connections = connections
        self.places = asyncio.Semaphore(PLACES)
        self.lines: dict[Hashable, Line] = {}

    def is_held(self, lock: Hashable) -> bool:
        """Returns whether a step that wants this lock has to wait in the line."""
        line, now = self.lines.get(lock), self.loop.time()
        return line is not None and (now < line.held_until or now - line.since > LONG_MS / 1000)

    def note(self, lock: Hashable) -> None:
        """Notes that a step has waited LONG_MS for the lock. The lock then counts as held for HELD_SECONDS."""
        now = self.loop.time()
        for other, line in list(self.lines.items()):
            if not line.steps and line.held_until <= now:
                del self.lines[other]
        self.lines.setdefault(lock, Line()).held_until = now + HELD_SECONDS

    @asynccontextmanager
    async def turn(self, lock: Hashable) -> AsyncIterator[float]:
        """Waits for our turn in the line of the lock. Yields the deadline by the loop's clock. Raises NotReady."""
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
    async def aside(self, lock: Hashable) -> AsyncIterator[StepTurn]:
        """Waits for our turn, and yields it with a connection that no other step uses. Raises NotReady."""
        async with AsyncExitStack() as stack:
            deadline = await stack.enter_async_context(self.turn(lock))
            if self.is_held(lock):
                await before(deadline, self.places.acquire())
                stack.callback(self.places.release)
            connection = await self.connections.take()
            stack.callback(self.connections.give_back, connection)
            yield StepTurn(connection, 0 if deadline == inf else max(1, int((deadline - self.loop.time()) * 1000)))


async def before(deadline: float, done: Awaitable[object]) -> None:
    """Waits until `done` is done. Raises NotReady if the deadline passes first."""
    try:
        async with asyncio.timeout_at(None if deadline == inf else deadline):
            await done
    except TimeoutError as error:
        raise NotReady("another request holds the lock of this topic: try again") from error


def limited(lock_ms: int) -> Statement:
    """Returns the first statement of a transaction that waits at most `lock_ms` for each lock."""
    return Statement("SELECT set_config('lock_timeout', %s, true)", (str(lock_ms),))
