"""Steps of scripts that become one transaction where they arrive together, and go on a thread each alone."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Awaitable, Hashable, Sequence
from typing import Any, Generic, Self, TypeVar

from psycopg.errors import LockNotAvailable

from store.database import translated
from store.loop import here
from store.roundtrips import RoundTrips, refuse
from store.script import Done, Script, Shared, Whole
from store.writes import raising

Got = TypeVar("Got")
BRIEF_MS = 10  # that each lock is waited for to find out which of several is held


class Joined(Shared, Generic[Got]):
    """Such a step. A class says what one transaction does for several of its kind: none of them knows who asked for another."""

    @property
    def kind(self) -> str:
        """Steps of a class that may not share a transaction differ in this."""
        return ""

    @property
    @abstractmethod
    def lock(self) -> Hashable:
        """The lock that it may have to wait for (held.py): a head by its topic's id, anything else by its names."""

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
        done = yield self.transaction([self])._replace(lock=self.lock)
        return self.outcomes([self], done, started)[0]

    def together(self) -> Awaitable[Got]:
        asked: Awaitable[Got] = joint(self, None).ask(self)
        return asked


class Joint(RoundTrips[Joined[Any], Any]):
    """The steps of one kind, in an event loop: one transaction at a time.

    Where it is refused, each of them is done alone: nobody is told of another's trouble. Another client may keep a lock that
    one of them wants. The steps for each lock then get a transaction of their own, which shows the lock that is held. The steps
    for that lock, and those that arrive later, share another Joint, whose transactions wait in the line of the `lock` (held.py).
    """

    def __init__(self, key: Hashable, lock: Hashable) -> None:
        super().__init__(1)
        self.key, self.lock = key, lock

    async def alone(self, asked: Joined[Any]) -> Any:
        return (await self.together([asked]))[0]

    async def together(self, batch: Sequence[Joined[Any]]) -> Sequence[Any]:
        held = here().held
        aside = [each for each in batch if self.lock is None and held.is_held(each.lock)]
        going = [each for each in batch if each not in aside]
        found = await self.transactions([going]) if going else {}
        return [found[each] if each in found else joint(each, each.lock).ask(each) for each in batch]

    async def transactions(
        self, groups: Sequence[Sequence[Joined[Any]]], lock_ms: int | None = None
    ) -> dict[Joined[Any], Any]:
        """Returns the outcome of each step. Each group is a transaction, which waits `lock_ms` for a lock."""
        step, started = type(groups[0][0]), time.perf_counter()
        every = [each for group in groups for each in group]
        chosen = [step.chosen(group) for group in groups]
        try:
            wholes = [step.transaction(each) for each in chosen]
        except Exception:  # one of them cannot be sent, which is its own trouble
            return {each: apart(each) for each in every}
        try:
            outcomes = await here().writes.send(wholes, self.lock, lock_ms)
        except Exception as error:  # the connection was lost: nobody knows what was committed; or our turn never came
            self.refuse_waiting(error)
            return {each: raising(error) for each in every}
        found: dict[Joined[Any], Any] = {}
        for group, together, outcome in zip(groups, chosen, outcomes, strict=True):
            if isinstance(outcome, LockNotAvailable):
                found |= await self.locked(group, outcome)
            elif isinstance(outcome, Done):
                found |= dict(zip(together, step.outcomes(together, outcome, started), strict=True))
            found |= {each: apart(each) for each in group if each not in found}
        return found

    async def locked(self, group: Sequence[Joined[Any]], error: LockNotAvailable) -> dict[Joined[Any], Any]:
        """Returns the outcomes of steps whose transaction met a held lock."""
        if self.lock is not None:
            self.refuse_waiting(error)
            return {each: raising(error) for each in group}
        groups: dict[Hashable, list[Joined[Any]]] = {}
        for each in group:
            groups.setdefault(each.lock, []).append(each)
        if len(groups) > 1:
            return await self.transactions(list(groups.values()), BRIEF_MS)
        here().held.note(group[0].lock)
        return {each: joint(each, each.lock).ask(each) for each in group}

    def refuse_waiting(self, error: Exception) -> None:
        """In the line of a lock: who arrived while it was waited for in vain would wait in vain, too."""
        if self.lock is not None:
            waiting, self.waiting = list(self.waiting.values()), {}
            for each in waiting:
                refuse(each.done, translated(error) or error)

    def served(self, task: Any) -> None:
        super().served(task)
        if self.lock is not None and not self.waiting and self.idle:
            here().joints.pop(self.key, None)  # another is made when it is wanted


def joint(step: Joined[Any], lock: Hashable) -> Joint:
    """Where steps of this kind go: all of them, or those in the line of a lock."""
    known, key = here().joints, (type(step), step.kind, lock)
    if key not in known:
        known[key] = Joint(key, lock)
    found: Joint = known[key]
    return found


async def apart(asked: Joined[Any]) -> Any:
    """What comes of one that others do not wait for."""
    return await here().drive(asked.alone())
