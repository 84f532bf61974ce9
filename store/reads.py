"""Simultaneous reads of an event loop share a round trip.

All reads wait for a connection and for the event loop's next turn. The reads that have arrived by then leave in one flush
(libpq's pipeline). To send the first read at once would save it 20 µs, but on a busy server few reads would share then. If one
of the reads fails, each read is sent again alone, so that no read gets the error of another. Equal reads also share the
statement. Many readers at the end of one topic cost PostgreSQL as much as one reader. Only unsent reads are shared, so each read
sees all records that were committed at its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from store.codec import Arguments, Rows
from store.connection import Connection
from store.pool import Pool

MOST = 32  # reads of one round trip: the first of them is answered together with the last


class SharedRead(NamedTuple):
    """A read, and a future for each client that asks for it. A client that disconnects cancels only its own future."""

    read: tuple[str, Arguments]
    done: list[asyncio.Future[Rows]]


class Reads:
    """Shared reads. A read must not wait for a lock, because all others would wait with it."""

    def __init__(self, connections: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.readers = Pool(connections)
        self.idle = connections
        self.waiting: dict[Hashable, SharedRead] = {}  # in order of arrival
        self.tasks: set[asyncio.Task[None]] = set()

    def execute(self, sql: str, arguments: Arguments) -> asyncio.Future[Rows]:
        """Returns an awaitable of a read's rows. The caller must await it at once. The read may run twice. Raises NotReady."""
        done: asyncio.Future[Rows] = self.loop.create_future()
        read: Hashable = (sql, arguments)
        try:
            known = self.waiting.get(read)
        except TypeError:  # an argument is a list, and the read is like no other
            read, known = object(), None
        if known is not None:
            known.done.append(done)
        else:
            self.waiting[read] = SharedRead((sql, arguments), [done])
        self.serve()
        return done

    def is_waiting(self, sql: str, arguments: Arguments) -> bool:
        """Whether such a read waits to be sent."""
        return (sql, arguments) in self.waiting

    def serve(self) -> None:
        """Have an idle connection serve the reads that wait."""
        if self.waiting and self.idle:
            self.idle -= 1
            self.keep(self.serve_waiting()).add_done_callback(self.served)

    def served(self, task: asyncio.Task[None]) -> None:
        self.idle += 1
        if not task.cancelled():
            self.serve()  # reads that arrived between the last look of the task and its end

    async def serve_waiting(self) -> None:
        while self.waiting:
            batch = [self.waiting.pop(each) for each in list(islice(self.waiting, MOST))]
            wanted = [
                each for each in batch if not all(done.done() for done in each.done)
            ]  # some clients may have gone
            if len(wanted) == 1:
                await self.alone(wanted[0])
            elif wanted:
                await self.together(wanted)

    async def alone(self, each: SharedRead) -> None:
        try:
            tell(each, await self.readers.execute(*each.read))
        except Exception as error:
            for done in each.done:
                if not done.done():
                    done.set_exception(error)

    async def together(self, batch: Sequence[SharedRead]) -> None:
        async def work(connection: Connection) -> list[Rows]:
            return (await connection.together([each.read for each in batch]))[0]

        try:
            found = await self.readers.read(work)
        except Exception:  # so that no read gets the error of another, or waits for it
            for each in batch:
                self.keep(self.alone(each))
        else:
            for each, rows in zip(batch, found, strict=True):
                tell(each, rows)

    def keep(self, work: Any) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await self.readers.close()


def tell(each: SharedRead, rows: Rows) -> None:
    for done in each.done:
        if not done.done():  # else its client has gone
            done.set_result(rows)
