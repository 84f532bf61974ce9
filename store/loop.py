"""Scripts in an event loop (script.py): the loop's connections to PostgreSQL, and the driver that runs a script on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from base.per_loop import PerLoop
from store.coalesce import Coalescer
from store.codec import Rows
from store.connection import Connection
from store.database import translating
from store.held import HeldLocks, limited
from store.lock_waiters import LockWaiters
from store.pool import Pool
from store.reads import Reads
from store.script import Begin, Bound, Coalesced, Pause, Script, Shared, Statement

T = TypeVar("T")
# An event loop has at most 12 connections: these, those of the coalescer (3) and of the lock waiters (1), and for a moment one
# that asks whether PostgreSQL answers (liveness.py). A web process has 4 more, in threads. So the process holds at most 16.
READS = 2  # connections for quick reads, which share round trips
READERS = 2  # connections for other single statements, each its own transaction
WRITERS = 3  # connections for transactions of one script each, and for steps that wait for a held lock


class Loop:
    """One event loop's connections for scripts."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.reads, self.readers = Reads(READS), Pool(READERS)
        self.writers = Pool(WRITERS)
        self.held = HeldLocks(self.writers)
        self.turns, self.coalescer = LockWaiters(self.held), Coalescer(self.held)
        self.look_ups: dict[str, Any] = {}  # of topics, under way (topics/cache.py)

    async def drive(self, script: Script[T]) -> T:
        """Returns the result of a script. Raises the script's errors, and the domain's errors for errors of the database."""
        transaction: Transaction | None = None
        resume: Callable[[Any], Any] = script.send
        answer: Any = None
        try:
            while True:
                step = resume(answer)
                try:
                    match step:
                        case Statement():
                            answer = await (self.execute(step) if transaction is None else transaction.execute(step))
                        case Coalesced():
                            assert transaction is None, "a transaction within another"
                            answer = await self.coalescer.ask(step)
                        case Shared():
                            answer = await step.together()
                        case Pause():
                            assert transaction is None, "a pause would hold the transaction's locks"
                            answer = await step.over()
                        case Begin():
                            assert transaction is None, "a transaction within another"
                            transaction = await Transaction.begin(self, step.lock)
                            answer = None
                        case Bound():
                            assert transaction is not None, "the end of a transaction that was not begun"
                            ended, transaction, answer = transaction, None, None
                            await ended.end(step)
                    resume = script.send
                except Exception as error:
                    resume, answer = script.throw, error
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            if transaction is not None:  # the request was cancelled in the middle
                await transaction.abandon()

    def execute(self, statement: Statement) -> Awaitable[Rows]:
        """Returns an awaitable of the rows. The caller must await it at once."""
        if statement.quick:
            return self.reads.execute(statement.sql, statement.arguments)
        if statement.turn:
            return self.turns.read(
                statement.turn, lambda connection: connection.execute(statement.sql, statement.arguments)
            )
        return self.readers.execute(statement.sql, statement.arguments)

    async def check(self) -> None:
        """Make a round trip on each serving connection. Raises NotReady."""
        pools = (self.reads.readers, self.coalescer.connections, self.readers, self.turns.readers, self.writers)
        await asyncio.gather(*(each.check() for each in pools))

    async def close(self) -> None:
        for shared in (self.reads, self.coalescer, self.readers, self.turns.readers, self.writers):
            await shared.close()


class Transaction:
    """A running transaction on its own connection. `until` gives the connection back."""

    def __init__(self, connection: Connection, until: AsyncExitStack) -> None:
        self.connection, self.until = connection, until

    @classmethod
    async def begin(cls, loop: Loop, lock: Hashable) -> Transaction:
        """Take a connection and begin a transaction on it. Raises NotReady."""
        async with AsyncExitStack() as stack:
            if lock is None:
                connection = await loop.writers.take()
                stack.callback(loop.writers.give_back, connection)
                first = [Statement("BEGIN")]
            else:
                connection, lock_ms = await stack.enter_async_context(loop.held.aside(lock))
                first = [Statement("BEGIN"), limited(lock_ms)]
            begun = cls(connection, stack.pop_all())
        try:
            for statement in first:
                await begun.execute(statement)
        except BaseException:
            await begun.abandon()
            raise
        return begun

    async def execute(self, statement: Statement) -> Rows:
        with translating():
            return await self.connection.execute(statement.sql, statement.arguments)

    async def end(self, bound: Bound) -> None:
        """Commit, or roll back. Raises NotReady if the connection ends during a commit. Then the outcome is unknown."""
        try:
            if not (bound is Bound.ROLLBACK and self.connection.closed):
                await self.execute(Statement(bound.value))
        finally:
            await self.until.aclose()

    async def abandon(self) -> None:
        """Close the connection. PostgreSQL then rolls the transaction back."""
        self.connection.end()
        await self.until.aclose()


process = PerLoop(Loop)
here = process.here


async def check() -> None:
    """Make a round trip on each connection that serves scripts. Raises NotReady."""
    await here().check()


async def close() -> None:
    if process.made is not None:
        await process.made.close()
