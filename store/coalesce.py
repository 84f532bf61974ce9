"""The coalescer: steps of one kind that arrive together in an event loop become one transaction (`Coalesced` in script.py).

Each kind has a lane: a queue, and one round trip at a time. Steps that arrive during a round trip share the next round trip. A
step does not suffer from its neighbours. A refused transaction is divided until the step to blame is alone. Steps for a lock that
another client holds move to a lane of their own (docs/concurrency.md, "A head that another client holds").
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from psycopg.errors import LockNotAvailable

from store.connection import Connection
from store.database import translated
from store.held import LONG_MS, HeldLocks, limited
from store.pool import Pool
from store.script import NOT_SYNCED, Coalesced, Done, PlannedTransaction, Statement

CONNECTIONS = 3  # for all lanes of an event loop; a lane has one connection during its round trip
BRIEF_MS = 10  # the wait for each lock while the coalescer finds out which lock is held
SESSION = "SET synchronous_commit = off"
# This commit waits for the disk. Then all earlier commits are on disk, too.
FLUSH = "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'topics', '')"
Step = Coalesced[Any]


class Coalescer:
    """The lanes of an event loop."""

    def __init__(self, held: HeldLocks) -> None:
        self.held = held
        self.connections = Pool(CONNECTIONS, LONG_MS, SESSION)
        self.lanes: dict[Hashable, Lane] = {}

    def ask(self, step: Step) -> asyncio.Future[Any]:
        """Returns a future with the outcome of the step. The future raises TopicsError, or the error of a bug in our code."""
        step.done = self.held.loop.create_future()
        is_held = self.held.lines and self.held.is_held(step.lock)
        self.lane(step, step.lock if is_held else None).add(step)
        return step.done

    def lane(self, step: Step, lock: Hashable = None) -> Lane:
        """Returns the lane of the step's kind, or the lane of this kind in the line of a held `lock`."""
        key = (type(step), step.lane, lock)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(self, key, lock)
        return lane

    async def close(self) -> None:
        for lane in self.lanes.values():
            if lane.running is not None:
                lane.running.cancel()
        await self.connections.close()


class Lane:
    """A queue of steps of one kind. With a `lock`, the lane waits in the line of this held lock. Otherwise it waits for each lock
    for LONG_MS at most.

    Everything here runs in one event loop, and other code runs only during an `await`. During an `await` of the running task a
    client can add a step or disconnect. So the task takes a batch after the last wait, and checks the queue again before the
    end.
    """

    def __init__(self, coalescer: Coalescer, key: tuple[type[Step], str, Hashable], lock: Hashable) -> None:
        self.coalescer, self.held, self.connections = coalescer, coalescer.held, coalescer.connections
        self.key, self.kind, self.lock = key, key[0], lock
        self.waiting: list[Step] = []  # in order of arrival
        self.left: Sequence[Step] = ()  # the steps of the current batch that are in no group
        self.running: asyncio.Task[None] | None = None

    def add(self, step: Step) -> None:
        self.waiting.append(step)
        if self.running is None:
            self.running = self.held.loop.create_task(self.run())

    async def run(self) -> None:
        """Serves the queue until it is empty."""
        while self.waiting:
            try:
                if self.lock is None:
                    connection = self.connections.take_idle() or await self.connections.take()
                    try:
                        await self.serve(connection)
                    finally:
                        self.connections.give_back(connection)
                else:
                    # Steps that arrive while we wait for our turn join the queue, and so the batch.
                    async with self.held.aside(self.lock) as turn:
                        self.waiting = [step for step in self.waiting if not step.done.done()]  # some disconnected
                        await self.serve(turn.connection, [limited(turn.lock_ms), NOT_SYNCED])
            except Exception as error:  # there is no connection, or our turn did not come in time
                self.refuse_all(error)
        # No `await` separates the last check of the queue from this line. So a lane that ended has no step left.
        self.running = None
        if self.lock is not None:
            self.coalescer.lanes.pop(self.key, None)

    async def serve(self, connection: Connection, first: Sequence[Statement] = ()) -> None:
        """Answers the next batch, or sets its steps aside. `first`: the statements that begin each transaction."""
        batch = self.take()
        self.left = ()
        if not batch:
            return
        try:
            groups = self.kind.groups(batch)
            if len(groups[0]) < len(batch) > sum(map(len, groups)):
                chosen = {id(step) for group in groups for step in group}
                self.left = [step for step in batch if id(step) not in chosen]
            await self.perform(connection, groups, first)
            if self.left:
                self.answer_left()
        except Exception as error:
            # If the connection ended, its steps may or may not be committed. Any other error is a bug in our code.
            refuse(batch, error)

    def answer_left(self) -> None:
        """Moves a step in no group to the lane of a held lock, keeps the step for the next batch, or answers None."""
        left, self.left = self.left, ()
        again: list[Step] = []
        for step in left:
            if self.lock is None and self.held.is_held(step.lock):
                self.coalescer.lane(step, step.lock).add(step)
            elif self.kind.left_waits:
                again.append(step)
            else:
                tell(step, None)
        self.waiting[:0] = again

    def take(self) -> list[Step]:
        """Returns the next batch and takes it off the queue: as many steps as one round trip can carry, and at least one."""
        weight = 0
        for place, step in enumerate(self.waiting):
            weight += step.weight
            if weight > self.kind.most and place:
                batch, self.waiting = self.waiting[:place], self.waiting[place:]
                return batch
        batch, self.waiting = self.waiting, []
        return batch

    async def perform(
        self, connection: Connection, groups: Sequence[Sequence[Step]], first: Sequence[Statement] = ()
    ) -> None:
        """Does each group in a transaction of its own, all in one round trip. Raises psycopg.Error if the connection ends."""
        started = time.perf_counter()
        outcomes: Sequence[Done | Exception]
        try:
            planned = [self.kind.transaction(group) for group in groups]
        except Exception as error:  # a step cannot be sent, so nothing was sent
            if len(groups) > 1:
                for group in groups:
                    await self.perform(connection, [group], first)
                return
            outcomes = [error]
        else:
            if len(planned) == 1 and not planned[0].durable:
                outcomes = [await sent_alone(connection, [*first, *planned[0].statements], len(first))]
            else:
                outcomes = await sent(connection, planned, first)
        for group, outcome in zip(groups, outcomes, strict=True):
            if isinstance(outcome, Done):
                for step, got in zip(group, self.kind.outcomes(group, outcome, started), strict=True):
                    tell(step, got)
            elif isinstance(outcome, LockNotAvailable):
                await self.set_aside(connection, group, outcome)
            elif len(group) == 1:
                refuse(group, outcome)
            else:  # at least one step is to blame
                half = len(group) // 2
                await self.perform(connection, [group[:half], group[half:]], first)

    async def set_aside(self, connection: Connection, group: Sequence[Step], error: LockNotAvailable) -> None:
        """Moves the steps for a lock that another client holds to the lane of the lock. The other steps of the group continue."""
        if self.lock is not None:
            # This lane has waited for as long as a step may wait. The steps that arrived meanwhile would not get the lock either.
            refuse(group, error)
            self.refuse_all(error)
            return
        by_lock: dict[Hashable, list[Step]] = {}
        for step in group:
            by_lock.setdefault(step.lock, []).append(step)
        if len(by_lock) > 1:
            # Each lock gets a transaction of its own. If PostgreSQL refuses the transaction, the lock is held.
            await self.perform(connection, list(by_lock.values()), [limited(BRIEF_MS)])
            return
        # From now on every kind of step finds this lock held. Later steps for the lock join its lane at once.
        self.held.note(group[0].lock)
        for step in group:
            self.coalescer.lane(step, step.lock).add(step)

    def refuse_all(self, error: Exception) -> None:
        waiting, self.waiting, self.left = [*self.left, *self.waiting], [], ()
        refuse(waiting, error)


async def sent(
    connection: Connection, planned: Sequence[PlannedTransaction], first: Sequence[Statement]
) -> list[Done | Exception]:
    """Sends the transactions in one round trip. Returns the outcome of each transaction.

    `first`: the statements that begin each transaction. Raises psycopg.Error if the connection ends or the wait for the disk
    fails. Then the transactions may or may not be committed.
    """
    transactions = [[(each.sql, each.arguments) for each in (*first, *whole.statements)] for whole in planned]
    if durable := any(whole.durable for whole in planned):
        transactions.append([(FLUSH, ())])
    outcomes = await connection.each(transactions)
    committed = time.perf_counter()
    if durable and isinstance(flushed := outcomes.pop(), Exception):
        raise flushed
    return [
        each if isinstance(each, Exception) else Done(each.rows[len(first) :], each.at, committed) for each in outcomes
    ]


async def sent_alone(connection: Connection, statements: Sequence[Statement], skip: int) -> Done | Exception:
    """Sends one transaction without a wait for the disk. Most transactions need no such wait, and sent() would cost more.

    Returns the outcome, without the rows of the first `skip` statements. Raises the error if the connection ends.
    """
    try:
        if len(statements) == 1:
            rows = [await connection.execute(statements[0].sql, statements[0].arguments)]
            wrote = committed = time.perf_counter()
        else:
            rows, wrote, committed = await connection.together([(each.sql, each.arguments) for each in statements])
    except Exception as error:
        if connection.closed:
            raise
        return error
    return Done(rows[skip:] if skip else rows, wrote, committed)


def tell(step: Step, got: Any) -> None:
    if not step.done.done():  # otherwise the client disconnected
        step.done.set_result(got)


def refuse(steps: Iterable[Step], error: Exception) -> None:
    told = translated(error) or error
    if told is not error:
        told.__cause__ = error
    for step in steps:
        if not step.done.done():
            step.done.set_exception(told)
