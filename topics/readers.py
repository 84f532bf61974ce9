"""A process's connections for reading in its event loop: few, so that 1,000 readers do not become 1,000 backends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from topics.connection import Connection, connect
from topics.database import translated

T = TypeVar("T")


class Readers:
    """At most `most` connections, taken in the order of asking."""

    def __init__(self, most: int) -> None:
        self.idle: list[Connection] = []
        self.free = asyncio.Semaphore(most)

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do some work that may be done twice, on a connection of our own. Raises NotReady.

        A connection may have died while it was idle, with PostgreSQL: that costs no reader its answer.
        """
        async with self.free:
            try:
                while self.idle:
                    connection = self.idle.pop()
                    try:
                        return await self.use(connection, work)
                    except (psycopg.OperationalError, psycopg.InterfaceError):
                        if not connection.closed:
                            raise
                return await self.use(await connect(), work)
            except psycopg.Error as error:
                known = translated(error)
                if known is None:
                    raise
                raise known from error

    async def use(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await work(connection)
        finally:
            if not connection.closed:
                self.idle.append(connection)

    async def close(self) -> None:
        while self.idle:
            await self.idle.pop().close()
