"""Simultaneous transactions of an event loop that are known beforehand (script.py) share a round trip (roundtrips.py).

Each stays a transaction of its own: it holds its locks for as long as its own statements take, and what one of them meets is
nothing to the others. They do not wait for the disk one by one: when the last of them is committed, one more makes PostgreSQL
write its log down to there, and only then is anybody answered.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Hashable, Sequence
from contextlib import AsyncExitStack

from psycopg.errors import LockNotAvailable

from store.connection import Connection
from store.database import translating
from store.held import LONG_MS, HeldLocks, limited
from store.readers import Readers
from store.roundtrips import RoundTrips
from store.script import Done, Whole

SESSION = "SET synchronous_commit = off"
# Its own commit waits for the disk, and with it for all that the log holds before it.
FLUSH = "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'topics', '')"


class Writes(RoundTrips[Whole, Done]):
    """A transaction that meets a held lock waits in the line of that lock (held.py), and the others pass by."""

    def __init__(self, connections: int, held: HeldLocks) -> None:
        super().__init__(connections)
        self.readers, self.held = Readers(connections, LONG_MS, SESSION), held

    async def alone(self, asked: Whole) -> Done | Awaitable[Done]:
        return (await self.together([asked]))[0]

    async def together(self, batch: Sequence[Whole]) -> Sequence[Done | Awaitable[Done]]:
        waits = [self.held.is_held(whole.lock) for whole in batch]
        going = [whole for whole, wait in zip(batch, waits, strict=True) if not wait]
        found = iter(await self.outcomes(going) if going else [])
        return [
            self.aside(whole) if wait else self.outcome(whole, next(found))
            for whole, wait in zip(batch, waits, strict=True)
        ]

    async def outcomes(self, batch: Sequence[Whole]) -> list[Done | BaseException]:
        try:
            return await self.send(batch)
        except Exception as error:
            return [error] * len(batch)

    def outcome(self, whole: Whole, outcome: Done | BaseException) -> Done | Awaitable[Done]:
        if isinstance(outcome, LockNotAvailable) and whole.lock is not None:
            self.held.note(whole.lock)
            return self.aside(whole)
        return outcome if isinstance(outcome, Done) else raising(outcome)

    async def aside(self, whole: Whole) -> Done:
        (outcome,) = await self.send([whole], whole.lock)
        return outcome if isinstance(outcome, Done) else await raising(outcome)

    async def send(
        self, batch: Sequence[Whole], lock: Hashable = None, lock_ms: int | None = None
    ) -> list[Done | BaseException]:
        """Returns the outcome of each transaction. With a `lock` they wait in its line. `lock_ms`: the wait for each lock.

        Raises NotReady or psycopg.Error when the connection ends. The transactions may or may not be committed then."""
        async with AsyncExitStack() as stack:
            if lock is not None:
                connection, lock_ms = await stack.enter_async_context(self.held.aside(lock))
            else:
                connection = await self.readers.take()
                stack.callback(self.readers.give_back, connection)
            with translating():
                return await sent(connection, batch, lock_ms)

    async def close(self) -> None:
        await super().close()
        await self.readers.close()


async def raising(error: BaseException) -> Done:
    with translating():
        raise error


async def sent(connection: Connection, batch: Sequence[Whole], lock_ms: int | None) -> list[Done | BaseException]:
    first = [] if lock_ms is None else [limited(lock_ms)]
    transactions = [[(each.sql, each.arguments) for each in (*first, *whole.statements)] for whole in batch]
    if any(whole.durable for whole in batch):
        transactions.append([(FLUSH, ())])
    outcomes = await connection.each(transactions)
    committed = time.perf_counter()
    if any(whole.durable for whole in batch) and isinstance(flushed := outcomes.pop(), BaseException):
        raise flushed
    return [
        each if isinstance(each, BaseException) else Done(each.rows[len(first) :], each.at, committed)
        for each in outcomes
    ]
