"""Simultaneous transactions of an event loop that are known beforehand (script.py) share a round trip (roundtrips.py).

Each stays a transaction of its own: it holds its locks for as long as its own statements take, and what one of them meets is
nothing to the others. They do not wait for the disk one by one: when the last of them is committed, one more makes PostgreSQL
write its log down to there, and only then is anybody answered.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence

from psycopg.errors import LockNotAvailable

from store.connection import Connection
from store.database import translating
from store.readers import Readers
from store.roundtrips import RoundTrips
from store.script import Done, Whole

# Whoever meets a lock that is held for longer waits for it elsewhere, and lets the others by.
LOCK_MS = 100
SESSION = "SET synchronous_commit = off"
# Its own commit waits for the disk, and with it for all that the log holds before it.
FLUSH = "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'topics', '')"


class Writes(RoundTrips[Whole, Done]):
    """`patient`: connections for whoever has to wait for a lock."""

    def __init__(self, connections: int, patient: Readers) -> None:
        super().__init__(connections)
        self.readers, self.patient = Readers(connections, LOCK_MS, SESSION), patient

    async def alone(self, asked: Whole) -> Done | Awaitable[Done]:
        return (await self.together([asked]))[0]

    async def together(self, batch: Sequence[Whole]) -> Sequence[Done | Awaitable[Done]]:
        try:
            outcomes = await self.send(self.readers, batch)
        except Exception as error:
            outcomes = [error] * len(batch)
        return [
            outcome if isinstance(outcome, Done) else self.outcome(whole, outcome)
            for whole, outcome in zip(batch, outcomes, strict=True)
        ]

    async def outcome(self, whole: Whole, outcome: Done | BaseException) -> Done:
        """Raises what went wrong. Whoever met a lock waits for it here, where nobody else does."""
        if isinstance(outcome, LockNotAvailable):
            (outcome,) = await self.send(self.patient, [whole])
        if isinstance(outcome, BaseException):
            with translating():
                raise outcome
        return outcome

    async def send(self, connections: Readers, batch: Sequence[Whole]) -> list[Done | BaseException]:
        """Raises NotReady or psycopg.Error when the connection ends: nobody knows then what was committed."""
        connection = await connections.take()
        try:
            with translating():
                return await sent(connection, batch)
        finally:
            connections.give_back(connection)

    async def close(self) -> None:
        await super().close()
        await self.readers.close()


async def sent(connection: Connection, batch: Sequence[Whole]) -> list[Done | BaseException]:
    transactions = [[(each.sql, each.arguments) for each in whole.statements] for whole in batch]
    if any(whole.durable for whole in batch):
        transactions.append([(FLUSH, ())])
    outcomes = await connection.each(transactions)
    committed = time.perf_counter()
    if any(whole.durable for whole in batch) and isinstance(flushed := outcomes.pop(), BaseException):
        raise flushed
    return [each if isinstance(each, BaseException) else Done(each.rows, each.at, committed) for each in outcomes]
