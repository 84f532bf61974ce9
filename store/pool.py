"""Pools of a few connections in an event loop. With them, 1,000 readers do not need 1,000 backends."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
from django.conf import settings

from store.codec import Arguments, Rows
from store.connection import Connection, connect
from store.database import translated, translating

log = logging.getLogger(__name__)
IDLE_SECONDS = settings.TOPICS_IDLE_CONNECTION_SECONDS
T = TypeVar("T")


class Places:
    """Lets `most` statements run at once, in the order in which they asked. Like asyncio.Semaphore, with fewer calls."""

    def __init__(self, most: int) -> None:
        self.free = most
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a place, which is then ours until give()."""
        if self.free:
            self.free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(place)
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled():  # it became ours in the very turn in which we were cancelled
                self.give()
            raise

    def give(self) -> None:
        """Our place goes to the first caller that waits. While one waits no place is free, so a later caller cannot overtake."""
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():  # else its caller was cancelled
                place.set_result(None)
                return
        self.free += 1


class Pool:
    """At most `most` connections, given out in the order of requests. A statement waits for a lock for at most `lock_ms`."""

    def __init__(self, most: int, lock_ms: int = settings.TOPICS_LOCK_TIMEOUT_MS, session: str = "") -> None:
        self.idle: list[Connection] = []  # the last used connection is at the end, and is taken first
        self.resting: asyncio.TimerHandle | None = None  # time of the next check of idle connections
        self.places = Places(most)
        self.lock_ms, self.session = lock_ms, session  # settings of each connection

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Call `work` with a connection of the pool, and return its result. `work` may run twice. Raises NotReady.

        An idle connection may have ended with PostgreSQL. Then `work` runs again on another connection. A connection that does
        not answer is closed after a limit (connection.py), so that the pool never loses its place.
        """
        await self.places.take()
        try:
            while self.idle:
                connection = self.idle.pop()
                try:
                    return await self.use(connection, work)
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    if not connection.closed:
                        raise
                    log.warning("a reader's connection has ended, another takes its place: %s", error)
                    if isinstance(error, psycopg.errors.QueryCanceled):  # a second try would take as long
                        raise
            return await self.use(await connect(self.lock_ms, self.session), work)
        except psycopg.Error as error:
            known = translated(error)
            if known is None:
                raise
            raise known from error
        finally:
            self.places.give()

    async def use(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await work(connection)
        finally:
            self.rest(connection)

    def rest(self, connection: Connection) -> None:
        """Keep a connection for the next use. After TOPICS_IDLE_CONNECTION_SECONDS without use it is closed.

        Otherwise the backends of a burst would stay forever.
        """
        if connection.closed:
            return
        connection.rests_since = connection.loop.time()
        self.idle.append(connection)
        if self.resting is None and IDLE_SECONDS:
            self.resting = connection.loop.call_later(IDLE_SECONDS, self.end_idle)

    def end_idle(self) -> None:
        """Close the connections that have been idle for too long, and schedule the next check."""
        loop = asyncio.get_running_loop()
        while self.idle and loop.time() - self.idle[0].rests_since >= IDLE_SECONDS:
            self.idle.pop(0).end()
        again = self.idle[0].rests_since + IDLE_SECONDS if self.idle else None
        self.resting = None if again is None else loop.call_at(again, self.end_idle)

    async def execute(self, sql: str, arguments: Arguments) -> Rows:
        """Returns the rows of a statement. The statement may run twice. Raises NotReady."""
        return await self.read(lambda connection: connection.execute(sql, arguments))

    def take_idle(self) -> Connection | None:
        """Returns an idle connection as take() does, but without a wait. None: no connection is idle."""
        if self.idle and self.places.free:
            connection = self.idle.pop()
            if not connection.hung_up():
                self.places.free -= 1
                return connection
            connection.end()
        return None

    async def take(self) -> Connection:
        """Returns a connection for the caller alone, until give_back(). Raises NotReady."""
        await self.places.take()
        try:
            while self.idle:
                connection = self.idle.pop()
                if not connection.hung_up():
                    return connection
                await connection.close()
            with translating():
                return await connect(self.lock_ms, self.session)
        except BaseException:
            self.places.give()
            raise

    def give_back(self, connection: Connection) -> None:
        """Return a connection of take() to the pool. It may be closed."""
        self.places.give()
        self.rest(connection)

    async def check(self) -> None:
        """Make a round trip on each idle connection, or on a new one if no connection is idle. Raises NotReady."""
        await asyncio.gather(*(self.read(ping) for _ in range(max(1, len(self.idle)))))

    async def close(self) -> None:
        if self.resting is not None:
            self.resting.cancel()
        while self.idle:
            await self.idle.pop().close()


async def ping(connection: Connection) -> None:
    await connection.execute("SELECT 1")
