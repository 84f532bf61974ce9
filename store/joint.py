"""Steps of scripts that become one transaction where they arrive together, and go on a thread each alone."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any, Generic, Self, TypeVar

from store.loop import here
from store.roundtrips import RoundTrips
from store.script import Done, Script, Shared, Whole

Got = TypeVar("Got")


class Joined(Shared, Generic[Got]):
    """Such a step. A class says what one transaction does for several of its kind: none of them knows who asked for another."""

    @property
    def kind(self) -> str:
        """Steps of a class that may not share a transaction differ in this."""
        return ""

    @classmethod
    def chosen(cls, batch: Sequence[Self]) -> Sequence[Self]:
        """Those of a batch that may share a transaction, at least one: what comes of each does not depend on the others, or on
        their order alone, and transaction() puts them in one."""
        return batch

    @classmethod
    @abstractmethod
    def transaction(cls, batch: Sequence[Self]) -> Whole:
        """What does them all. They are of one kind, and chosen."""

    @classmethod
    @abstractmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> Sequence[Got]:
        """What came of each, once it is committed. `started`: when it was begun (s)."""

    def alone(self) -> Script[Got]:
        started = time.perf_counter()
        done = yield self.transaction([self])
        return self.outcomes([self], done, started)[0]

    def together(self) -> Awaitable[Got]:
        known = here().joints
        mine = type(self), self.kind
        if mine not in known:
            known[mine] = Joint()
        asked: Awaitable[Got] = known[mine].ask(self)
        return asked


class Joint(RoundTrips[Joined[Any], Any]):
    """The steps of one kind, in an event loop: one transaction at a time.

    Where it is refused, or somebody keeps a lock that one of them wants, each of them is done alone: nobody is told of another's
    trouble, nor waits for it.
    """

    def __init__(self) -> None:
        super().__init__(1)

    async def alone(self, asked: Joined[Any]) -> Any:
        return (await self.together([asked]))[0]

    async def together(self, batch: Sequence[Joined[Any]]) -> Sequence[Any]:
        step, started = type(batch[0]), time.perf_counter()
        chosen = step.chosen(batch)
        try:
            whole = step.transaction(chosen)
        except Exception:  # one of them cannot be sent, which is its own trouble
            return [apart(each) for each in batch]
        writes = here().writes
        try:
            (done,) = await writes.send(writes.readers, [whole])
        except Exception as error:  # the connection was lost: nobody knows what was committed
            return [raising(error) for _ in batch]
        if isinstance(done, BaseException):
            return [apart(each) for each in batch]
        found = dict(zip(chosen, step.outcomes(chosen, done, started), strict=True))
        return [found[each] if each in found else apart(each) for each in batch]


async def apart(asked: Joined[Any]) -> Any:
    """What comes of one that others do not wait for."""
    return await here().drive(asked.alone())


async def raising(error: Exception) -> Any:
    raise error
