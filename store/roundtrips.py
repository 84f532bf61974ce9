"""What simultaneous requests of an event loop ask of PostgreSQL shares a round trip.

All that is asked waits for a connection and for the event loop's next turn, and what has come by then goes out together: one
flush for all of it (libpq's pipeline). To send the first at once, alone, would save it 20 µs and cost all others more: on a busy
server few would share. Reads (reads.py) and whole transactions (writes.py) are two kinds of it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Hashable, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

Asked = TypeVar("Asked")
Got = TypeVar("Got")
MOST = 32  # of one round trip: the first of them is answered with the last


class Waiting(NamedTuple):
    """Something asked, and who waits for what comes of it: each has a future of its own, since whoever goes away ends his."""

    asked: Any
    done: list[asyncio.Future[Any]]


class RoundTrips(ABC, Generic[Asked, Got]):
    """Lives in an event loop, and has so many connections to send by."""

    def __init__(self, connections: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle = connections
        self.waiting: dict[Hashable, Waiting] = {}  # in order of arrival
        self.tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def alone(self, asked: Asked) -> Got | Awaitable[Got]:
        """What comes of one, in a round trip of its own; later, as of together(), where it has to wait for something else."""

    @abstractmethod
    async def together(self, batch: Sequence[Asked]) -> Sequence[Got | Awaitable[Got]]:
        """What comes of each of them, in one round trip. Raises nothing. Of those that have to be seen to by themselves it comes
        later: so nobody waits for another's trouble."""

    def same(self, asked: Asked) -> Hashable:
        """Equal for what need be asked only once. Nothing is, unless a kind says so."""
        return object()

    def ask(self, asked: Asked) -> Awaitable[Got]:
        """What comes of it. Raises what alone() raises."""
        done: asyncio.Future[Got] = self.loop.create_future()
        same = self.same(asked)
        if same in self.waiting:
            self.waiting[same].done.append(done)
        else:
            self.waiting[same] = Waiting(asked, [done])
        self.serve()
        return done

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
            batch = [self.waiting.pop(each) for each in list(islice(self.waiting, MOST))]
            wanted = [
                each for each in batch if not all(done.done() for done in each.done)
            ]  # some clients may have gone
            if len(wanted) == 1:
                await self.serve_one(wanted[0])
            elif wanted:
                for each, got in zip(wanted, await self.together([each.asked for each in wanted]), strict=True):
                    self.give(each, got)

    async def serve_one(self, each: Waiting) -> None:
        try:
            self.give(each, await self.alone(each.asked))
        except Exception as error:
            refuse(each.done, error)

    def give(self, each: Waiting, got: Got | Awaitable[Got]) -> None:
        """What came of it, or comes later."""
        if isinstance(got, Awaitable):
            self.keep(asyncio.create_task(answer(each.done, got)))
        else:
            tell(each.done, got)

    def keep(self, task: asyncio.Task[None]) -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()


def tell(waiting: list[asyncio.Future[Any]], got: Any) -> None:
    for done in waiting:
        if not done.done():  # else its client has gone meanwhile
            done.set_result(got)


async def answer(waiting: list[asyncio.Future[Any]], got: Awaitable[Any]) -> None:
    try:
        tell(waiting, await got)
    except Exception as error:
        refuse(waiting, error)


def refuse(waiting: list[asyncio.Future[Any]], error: Exception) -> None:
    for done in waiting:
        if not done.done():
            done.set_exception(error)
