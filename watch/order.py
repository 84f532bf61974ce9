"""Which topic of a stream is read next: the one with the highest effective priority, and now and then the one that waits longest.

So a topic with a backlog delays none that is more urgent, and none starves: of n topics that wait each is read within
`LONGEST_EVERY` times n readings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
LONGEST_EVERY = 4  # readings, of which one is of the topic that has waited for the longest, whatever its priority


class Order(Generic[Item]):
    """What waits to be read, each once, in the order of asking."""

    __slots__ = ("priority", "taken", "waiting")

    def __init__(self, priority: Callable[[Item], int]) -> None:
        self.priority = priority
        self.waiting: dict[Item, None] = {}
        self.taken = 0

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def add(self, item: Item) -> None:
        """One that waits already keeps its place."""
        self.waiting[item] = None

    def drop(self, item: Item) -> None:
        self.waiting.pop(item, None)

    def take(self) -> Item:
        """The next one, which waits no more. There has to be one."""
        if len(self.waiting) == 1:  # as in most streams, whose turns need no counting
            return self.waiting.popitem()[0]
        self.taken += 1
        # Of several with the same priority, the one that was asked for first.
        by_priority = self.taken % LONGEST_EVERY
        item = max(self.waiting, key=self.priority) if by_priority else next(iter(self.waiting))
        del self.waiting[item]
        return item
