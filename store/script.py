"""An operation on the store, written once: a script.

A script is a generator. It yields steps (a statement, the bounds of a transaction), takes their answers, and returns its result.
Two drivers run any script. `run` uses Django's connection of a thread, for the admin, Celery, commands and views. A `Loop`
(loop.py) uses connections of an event loop. A script does not depend on its driver.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator, Hashable, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, Self, TypeVar

from django.db import transaction

from store.codec import Arguments, Rows
from store.database import prepared, translating

T = TypeVar("T")
Got = TypeVar("Got")


class Statement(NamedTuple):
    """SQL with psycopg's placeholders, and its arguments. The answer is its rows.

    Outside of a transaction, the statement is its own transaction. It may be sent twice if a connection ends. So a statement that
    writes must have no effect the second time, or must be in atomically().
    An event loop separates statements that wait from others. `turn`: a topic whose head the statement may have to wait for.
    `quick`: a read by index that waits for no lock. Simultaneous quick reads share a round trip.
    """

    sql: str
    arguments: Arguments = ()
    turn: int = 0
    quick: bool = False


class Begin(NamedTuple):
    """The start of a transaction. See atomically()."""

    lock: Hashable = None


class Bound(Enum):
    """The end of a transaction. See atomically()."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


class Done(NamedTuple):
    """The answer to a PlannedTransaction: the rows of each statement, their arrival, and the time of the commit (s)."""

    rows: list[Rows]
    wrote: float
    committed: float


class PlannedTransaction(NamedTuple):
    """A transaction whose statements are all known beforehand: no statement needs the rows of another.

    `durable`: the answer comes after the transaction is on disk. Otherwise a crash of PostgreSQL can undo it within the next
    second, unless its statements make the commit wait.
    """

    statements: Sequence[Statement]
    durable: bool = True


# The commit of the transaction that begins so does not wait for the disk.
NOT_SYNCED = Statement("SELECT set_config('synchronous_commit', 'off', true)")


class Coalesced(ABC, Generic[Got]):
    """A step that an event loop does together with the steps of its kind that arrive at the same time (coalesce.py).

    A thread does it alone. The class knows how one transaction does several steps.
    """

    most = 32  # the weight of one round trip: its first step is answered together with its last
    weight = 1
    left_waits = False  # a step in no group waits for the next batch, and otherwise its outcome is None
    lane = ""  # steps of a class with different lanes never share a transaction
    lock: Hashable  # the lock that the step may have to wait for (held.py): a head by its topic's id, anything else by its names
    done: asyncio.Future[Got | None]  # in an event loop

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """Returns the steps of a batch, divided into transactions. In a group, the outcome of a step depends on no other step, or
        on their order alone. A part of a group is a group, too. For a step in no group see `left_waits`."""
        return [batch]

    @classmethod
    @abstractmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        """Returns the transaction that does all steps of a group."""

    @classmethod
    @abstractmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> Sequence[Got]:
        """Returns the outcome of each step, after the commit. `started`: when the transaction was planned (s)."""

    def alone(self) -> Script[Got]:
        started = time.perf_counter()
        done = yield from in_turn(self.transaction([self]))
        return self.outcomes([self], done, started)[0]


class Shared(ABC):
    """A step that an event loop does for many scripts at once, and a thread for one script."""

    @abstractmethod
    def alone(self) -> Script[Any]: ...

    @abstractmethod
    def together(self) -> Awaitable[Any]: ...


class Pause(ABC):
    """A step that waits for an event for any time. It holds neither a thread nor a connection while it waits."""

    @abstractmethod
    async def over(self) -> Any: ...


Step = Statement | Coalesced[Any] | Begin | Bound | Shared | Pause
Script = Generator[Step, Any, T]


class Undone(Exception):
    """Makes Django roll back a transaction."""


def atomically(script: Script[T], lock: Hashable = None) -> Script[T]:
    """Run `script` in one transaction, which commits all or nothing. It must not be inside another transaction.

    `lock`: the lock that it may have to wait for. An event loop then runs one transaction for that lock at a time (held.py).
    """
    yield Begin(lock)
    try:
        result = yield from script
    except Exception:
        yield Bound.ROLLBACK
        raise
    yield Bound.COMMIT
    return result


def in_turn(whole: PlannedTransaction) -> Script[Done]:
    """Run the transaction, statement by statement. If it is durable, its own commit waits for the disk."""

    def statements() -> Script[tuple[list[Rows], float]]:
        rows = []
        if not whole.durable:
            yield NOT_SYNCED
        for statement in whole.statements:
            rows.append((yield statement))
        return rows, time.perf_counter()

    rows, wrote = yield from atomically(statements())
    return Done(rows, wrote, time.perf_counter())


def run(script: Script[T]) -> T:
    """Returns the result of a script. It runs on Django's connection of this thread, inside an open transaction if there is one.

    A pause ends at once. Raises the script's errors, and the domain's errors for errors of the database.
    """
    blocks: list[transaction.Atomic] = []
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            step = script.send(answer) if error is None else script.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        answer, error = None, None
        if isinstance(step, Pause):
            assert not blocks, "a pause would hold the transaction's locks"
            continue
        try:
            answer = perform(step, blocks)
        except Exception as raised:
            error = raised


def perform(step: Statement | Coalesced[Any] | Begin | Bound | Shared, blocks: list[transaction.Atomic]) -> Any:
    """Returns the answer to one step. `blocks`: the open transactions of the script."""
    if isinstance(step, Statement):
        return prepared(step.sql, step.arguments)
    if isinstance(step, Coalesced | Shared):
        return run(step.alone())
    with translating():
        match step:
            case Begin():
                block = transaction.atomic()
                block.__enter__()
                blocks.append(block)
            case Bound.COMMIT:
                blocks.pop().__exit__(None, None, None)
            case Bound.ROLLBACK:
                blocks.pop().__exit__(Undone, Undone(), None)
    return None
