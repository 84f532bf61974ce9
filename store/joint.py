"""Steps of scripts that become one transaction where they arrive together, and go on a thread each alone."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from store.loop import here
from store.roundtrips import RoundTrips
from store.script import Done, Shared, Whole

Asked = TypeVar("Asked", bound=Shared)
Got = TypeVar("Got")


class Joint(RoundTrips[Asked, Got]):
    """Such steps of one kind, in an event loop: one transaction at a time.

    Where it is refused, or somebody keeps a lock that one of them wants, each of them is done alone: nobody is told of another's
    trouble, nor waits for it.
    """

    def __init__(self) -> None:
        super().__init__(1)

    @abstractmethod
    def chosen(self, batch: Sequence[Asked]) -> Sequence[Asked]:
        """Those of a batch that may share a transaction, at least one: what comes of each does not depend on the others, or on
        their order alone, and transaction() puts them in one."""

    @abstractmethod
    def transaction(self, chosen: Sequence[Asked]) -> Whole:
        """What does them all."""

    @abstractmethod
    def outcomes(self, chosen: Sequence[Asked], done: Done, started: float) -> Sequence[Got]:
        """What came of each, once it is committed. `started`: when it was begun (s)."""

    async def alone(self, asked: Asked) -> Got | Awaitable[Got]:
        return (await self.together([asked]))[0]

    async def apart(self, asked: Asked) -> Got:
        """What comes of one that others do not wait for."""
        got: Got = await here().drive(asked.alone())
        return got

    async def together(self, batch: Sequence[Asked]) -> Sequence[Got | Awaitable[Got]]:
        started, chosen = time.perf_counter(), self.chosen(batch)
        try:
            whole = self.transaction(chosen)
        except Exception:  # one of them cannot be sent, which is its own trouble
            return [self.apart(each) for each in batch]
        writes = here().writes
        try:
            (done,) = await writes.send(writes.readers, [whole])
        except Exception as error:  # the connection was lost: nobody knows what was committed
            return [raising(error) for _ in batch]
        if isinstance(done, BaseException):
            return [self.apart(each) for each in batch]
        found = dict(zip(chosen, self.outcomes(chosen, done, started), strict=True))
        return [found[each] if each in found else self.apart(each) for each in batch]


async def raising(error: Exception) -> Any:
    raise error


Kind = TypeVar("Kind", bound=Joint[Any, Any])


def joint(kind: type[Kind], of: str = "") -> Kind:
    """The one of this kind in the event loop that runs; there may be several, each `of` something else."""
    known = here().joints
    if (kind, of) not in known:
        known[kind, of] = kind()
    found: Kind = known[kind, of]
    return found
