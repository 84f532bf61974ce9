"""Scripts in an event loop (script.py): its connections to PostgreSQL, and the driver that runs a script on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from store.codec import Rows
from store.connection import Connection
from store.database import translating
from store.held import HeldLocks, limited
from store.readers import Readers
from store.reads import Reads
from store.script import Begin, Bound, Pause, Script, Shared, Statement, Whole
from store.turns import Turns
from store.writes import Writes

T = TypeVar("T")
READS = 2  # connections for quick reads, which share their round trips
WRITES = 2  # connections for transactions that are known beforehand, which share theirs
READERS = 4  # connections for other statements that are transactions of their own
WRITERS = 8  # connections for transactions of several statements, which may have to wait for a lock


class Loop:
    """One event loop's connections for scripts."""

    def __init__(self, reads: int = READS) -> None:
        self.loop = asyncio.get_running_loop()
        self.reads, self.readers = Reads(reads), Readers(READERS)
        self.writers = Readers(WRITERS)
        self.held = HeldLocks(self.writers)
        self.turns, self.writes = Turns(self.held), Writes(WRITES, self.held)
        self.joints: dict[Hashable, Any] = {}  # store/joint.py

    async def drive(self, script: Script[T]) -> T:
        """The result of a script. Raises what the script raises, and the domain's errors for the database's."""
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
                        case Shared():
                            answer = await step.together()
                        case Whole():
                            assert transaction is None, "a transaction within another"
                            answer = await self.writes.ask(step)
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
        """Its rows, to be awaited at once."""
        if statement.quick:
            return self.reads.execute(statement.sql, statement.arguments)
        if statement.turn:
            return self.turns.read(
                statement.turn, lambda connection: connection.execute(statement.sql, statement.arguments)
            )
        return self.readers.execute(statement.sql, statement.arguments)

    async def check(self) -> None:
        """A round trip on the very connections that serve. Raises NotReady."""
        await asyncio.gather(
            *(
                each.check()
                for each in (self.reads.readers, self.writes.readers, self.readers, self.turns.readers, self.writers)
            )
        )

    async def close(self) -> None:
        for shared in (self.reads, self.writes, *self.joints.values()):
            await shared.close()
        for each in (self.readers, self.turns.readers, self.writers):
            await each.close()


class Transaction:
    """A transaction under way, on a connection of its own. `until`: what gives the connection back."""

    def __init__(self, connection: Connection, until: AsyncExitStack) -> None:
        self.connection, self.until = connection, until

    @classmethod
    async def begin(cls, loop: Loop, lock: Hashable) -> Transaction:
        """Raises NotReady."""
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
        """Commit, or roll back. Raises NotReady when the connection ends in the middle of a commit: nobody knows then."""
        try:
            if not (bound is Bound.ROLLBACK and self.connection.closed):
                await self.execute(Statement(bound.value))
        finally:
            await self.until.aclose()

    async def abandon(self) -> None:
        """Nobody goes on with it. PostgreSQL rolls back what is open on a connection that ends."""
        self.connection.end()
        await self.until.aclose()


_here: Loop | None = None


def here() -> Loop:
    """The Loop of the event loop that runs."""
    global _here
    if _here is None or _here.loop is not asyncio.get_running_loop():
        _here = Loop()
    return _here


async def check() -> None:
    """A round trip on the very connections that serve scripts. Raises NotReady."""
    await here().check()


async def close() -> None:
    if _here is not None:
        await _here.close()
