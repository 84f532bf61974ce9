"""Simultaneous reads of an event loop share a round trip, as its appends share a transaction.

A read that finds a connection idle goes out at once, alone. Those that arrive while all connections are busy wait, and go out
together: one flush and one answer for all of them (libpq's pipeline). Should one of them fail, each is asked again alone, so
that none is told of another's trouble.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from store.codec import Arguments, Rows
from store.connection import Connection
from store.readers import Readers

MOST = 32  # of one round trip: the first of them is answered with the last


class Waiting(NamedTuple):
    """A read, and who waits for its rows."""

    sql: str
    arguments: Arguments
    done: asyncio.Future[Rows]


class Reads:
    """Lives in an event loop. Nothing that is asked here may wait for a lock: others would wait with it."""

    def __init__(self, connections: int) -> None:
        self.readers = Readers(connections)
        self.idle = connections
        self.waiting: list[Waiting] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def execute(self, sql: str, arguments: Arguments) -> Rows:
        """The rows of a read that may be done twice. Raises NotReady."""
        if self.idle and not self.waiting:
            self.idle -= 1
            try:
                return await self.readers.execute(sql, arguments)
            finally:
                self.idle += 1
                self.serve()
        done: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiting(sql, arguments, done))
        self.serve()
        return await done

    def serve(self) -> None:
        """Have an idle connection serve those who wait."""
        if self.waiting and self.idle:
            self.idle -= 1
            task = asyncio.create_task(self.serve_waiting())
            self.tasks.add(task)
            task.add_done_callback(self.served)

    def served(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.idle += 1
        if not task.cancelled():
            self.serve()  # who came between the last look of the task and its end

    async def serve_waiting(self) -> None:
        while self.waiting:
            batch, self.waiting = self.waiting[:MOST], self.waiting[MOST:]
            await self.serve_batch([each for each in batch if not each.done.done()])  # some clients may have gone

    async def serve_batch(self, batch: list[Waiting]) -> None:
        try:
            found = await self.readers.read(lambda connection: together(connection, batch))
        except Exception:
            await asyncio.gather(*(self.alone(each) for each in batch))
            return
        for each, rows in zip(batch, found, strict=True):
            if not each.done.done():
                each.done.set_result(rows)

    async def alone(self, each: Waiting) -> None:
        try:
            rows = await self.readers.execute(each.sql, each.arguments)
        except Exception as error:
            if not each.done.done():
                each.done.set_exception(error)
        else:
            if not each.done.done():
                each.done.set_result(rows)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await self.readers.close()


async def together(connection: Connection, batch: list[Waiting]) -> list[Rows]:
    if not batch:
        return []
    if len(batch) == 1:
        return [await connection.execute(batch[0].sql, batch[0].arguments)]
    found, _, _ = await connection.together([(each.sql, each.arguments) for each in batch])
    return found
