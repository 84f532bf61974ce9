"""An operation on the store, written once: a script.

A script is a generator. It yields what it needs done (a statement, the bounds of a transaction), takes the answer, and returns
its result. Two drivers run any script: `run` on Django's connection of a thread, for the admin, Celery, commands and views;
and a `Loop` (loop.py) on connections of an event loop. A script knows neither of them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator, Hashable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from django.db import transaction

from store.codec import Arguments, Rows
from store.database import prepared, translating

T = TypeVar("T")


class Statement(NamedTuple):
    """SQL with psycopg's placeholders, and its arguments. The answer is its rows.

    Outside of a transaction it is one of its own, and may be sent twice when a connection ends under it: what changes
    something says so in a way that does nothing the second time, or stands in atomically().
    An event loop keeps apart what waits and what does not. `turn`: a topic whose head the statement may have to wait for.
    `quick`: a read by index that waits for no lock; simultaneous ones share a round trip.
    """

    sql: str
    arguments: Arguments = ()
    turn: int = 0
    quick: bool = False


class Begin(NamedTuple):
    """The start of a transaction: see atomically()."""

    lock: Hashable = None


class Bound(Enum):
    """The end of a transaction: see atomically()."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


class Done(NamedTuple):
    """What came of a Whole: the rows of each statement; when these were here, and when all was committed (s)."""

    rows: list[Rows]
    wrote: float
    committed: float


class Whole(NamedTuple):
    """A transaction whose statements are all known beforehand: none of them is made of what another answers. The answer is Done.

    An event loop sends those of many scripts in one round trip. `durable`: whoever is answered knows it on disk; else a
    crash of PostgreSQL may undo it within the next second. `lock`: the lock that it may have to wait for (held.py).
    """

    statements: Sequence[Statement]
    durable: bool = True
    lock: Hashable = None


class Shared(ABC):
    """A step that an event loop does for many scripts at once, and a thread for one alone."""

    @abstractmethod
    def alone(self) -> Script[Any]: ...

    @abstractmethod
    def together(self) -> Awaitable[Any]: ...


class Pause(ABC):
    """A step that waits for something to happen, however long: it holds neither a thread nor a connection meanwhile."""

    @abstractmethod
    async def over(self) -> Any: ...


Step = Statement | Whole | Begin | Bound | Shared | Pause
Script = Generator[Step, Any, T]


class Suspended(Exception):
    """The script has come to a pause: run() goes on with it when that is over."""

    def __init__(self, script: Script[Any], pause: Pause) -> None:
        self.script, self.pause = script, pause


class Undone(Exception):
    """Tells Django that a transaction is to be rolled back."""


def atomically(script: Script[T], lock: Hashable = None) -> Script[T]:
    """Everything in `script` is one transaction: all of it is done, or nothing. Not within another.

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


def one_by_one(whole: Whole) -> Script[Done]:
    """A Whole by a thread. As for any transaction there, the commit itself waits for the disk."""

    def statements() -> Script[tuple[list[Rows], float]]:
        rows = []
        for statement in whole.statements:
            rows.append((yield statement))
        return rows, time.perf_counter()

    rows, wrote = yield from atomically(statements())
    return Done(rows, wrote, time.perf_counter())


def run(script: Script[T], *, suspend: bool = False, answer: Any = None) -> T:
    """The result of a script on Django's connection of this thread, within its transaction where it is in one.

    A pause ends at once, or, where the caller can come back later, raises Suspended: to go on, call this again with the
    `answer` of the pause. Raises what the script raises, and the domain's errors for the database's.
    """
    blocks: list[transaction.Atomic] = []
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
            if suspend:
                raise Suspended(script, step)
            continue
        try:
            answer = perform(step, blocks)
        except Exception as raised:
            error = raised


def perform(step: Statement | Whole | Begin | Bound | Shared, blocks: list[transaction.Atomic]) -> Any:
    """The answer to one step. `blocks` are the transactions that the script is in."""
    if isinstance(step, Statement):
        return prepared(step.sql, step.arguments)
    if isinstance(step, Shared):
        return run(step.alone())
    if isinstance(step, Whole):
        return run(one_by_one(step))
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
