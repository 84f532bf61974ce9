"""A process's connections for reading in its event loop: few, so that 1,000 readers do not become 1,000 backends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
from django.conf import settings

from store.codec import Arguments, Rows
from store.connection import Connection, connect
from store.database import hung_up, translated, translating

log = logging.getLogger(__name__)
IDLE_SECONDS = settings.TOPICS_IDLE_CONNECTION_SECONDS
T = TypeVar("T")


class Readers:
    """At most `most` connections, taken in the order of asking. None of them waits for a lock longer than `lock_ms`."""

    def __init__(self, most: int, lock_ms: int = settings.TOPICS_LOCK_TIMEOUT_MS, session: str = "") -> None:
        self.idle: list[Connection] = []  # the one that was used last is at the end, and is taken first
        self.resting: asyncio.TimerHandle | None = None  # when the idle ones are looked at
        self.free = asyncio.Semaphore(most)
        self.lock_ms, self.session = lock_ms, session  # of each connection

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do some work that may be done twice, on a connection of our own. Raises NotReady.

        A connection may have died while it was idle, with PostgreSQL: that costs no reader its answer. One that does not answer
        is closed after a while (connection.py), so that its place is never lost.
        """
        async with self.free:
            try:
                while self.idle:
                    connection = self.idle.pop()
                    try:
                        return await self.use(connection, work)
                    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                        if not connection.closed:
                            raise
                        log.warning("a reader's connection has ended, another takes its place: %s", error)
                        if isinstance(error, psycopg.errors.QueryCanceled):  # once more would take as long again
                            raise
                return await self.use(await connect(self.lock_ms, self.session), work)
            except psycopg.Error as error:
                known = translated(error)
                if known is None:
                    raise
                raise known from error

    async def use(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await work(connection)
        finally:
            self.rest(connection)

    def rest(self, connection: Connection) -> None:
        """Keep a connection for the next use. After TOPICS_IDLE_CONNECTION_SECONDS without one it is closed: a burst must not
        leave backends behind for ever."""
        if connection.closed:
            return
        loop = asyncio.get_running_loop()
        connection.rests_since = loop.time()
        self.idle.append(connection)
        if self.resting is None and IDLE_SECONDS:
            self.resting = loop.call_later(IDLE_SECONDS, self.end_idle)

    def end_idle(self) -> None:
        """Close the connections that have rested for long, and look again when the next one will have."""
        loop = asyncio.get_running_loop()
        while self.idle and loop.time() - self.idle[0].rests_since >= IDLE_SECONDS:
            self.idle.pop(0).end()
        again = self.idle[0].rests_since + IDLE_SECONDS if self.idle else None
        self.resting = None if again is None else loop.call_at(again, self.end_idle)

    async def execute(self, sql: str, arguments: Arguments) -> Rows:
        """The rows of a statement that may be done twice. Raises NotReady."""
        return await self.read(lambda connection: connection.execute(sql, arguments))

    async def take(self) -> Connection:
        """A connection for the caller alone, until give_back(). Raises NotReady."""
        await self.free.acquire()
        try:
            while self.idle:
                connection = self.idle.pop()
                if not hung_up(connection):
                    return connection
                await connection.close()
            with translating():
                return await connect(self.lock_ms, self.session)
        except BaseException:
            self.free.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """The caller of take() is through with it, or has ended it."""
        self.free.release()
        self.rest(connection)

    async def check(self) -> None:
        """A round trip on each connection that is idle, or on a new one where none is. Raises NotReady."""
        await asyncio.gather(*(self.read(ping) for _ in range(max(1, len(self.idle)))))

    async def close(self) -> None:
        if self.resting is not None:
            self.resting.cancel()
        while self.idle:
            await self.idle.pop().close()


async def ping(connection: Connection) -> None:
    await connection.execute("SELECT 1")
