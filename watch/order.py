"""Which topic of a stream is read next: the one with the highest effective priority, and now and then the one that waits longest.

So a topic with a backlog delays none that is more urgent, and none starves: of n topics that wait each is read within
`LONGEST_EVERY` times n readings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Item = TypeVar("Item")
LONGEST_EVERY = 4  # readings, of which one is of the topic that has waited for the longest, whatever its priority


class Order(dict[Item, None]):
    """What waits to be read, each once, in the order of asking."""

    __slots__ = ("priority", "taken")

    def __init__(self, priority: Callable[[Item], int]) -> None:
        super().__init__()
        self.priority = priority
        self.taken = 0

    def add(self, item: Item) -> None:
        """One that waits already keeps its place."""
        self[item] = None

    def drop(self, item: Item) -> None:
        self.pop(item, None)

    def take(self) -> Item:
        """The next one, which waits no more. There has to be one."""
        if len(self) == 1:  # as in most streams, whose turns need no counting
            return self.popitem()[0]
        self.taken += 1
        # Of several with the same priority, the one that was asked for first.
        by_priority = self.taken % LONGEST_EVERY
        item = max(self, key=self.priority) if by_priority else next(iter(self))
        del self[item]
        return item
