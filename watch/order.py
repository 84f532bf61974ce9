"""The order in which a stream reads its topics: by highest effective priority, and regularly the longest-waiting topic.

A backlog in a topic therefore does not delay a more urgent topic, and every topic gets a turn. If n topics wait, each topic is
read within `LONGEST_EVERY` times n readings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Item = TypeVar("Item")
LONGEST_EVERY = 4  # every so many readings, one is of the topic that has waited longest, whatever its priority


class Order(dict[Item, None]):
    """The items that wait to be read, each only once, in the order of `add`."""

    __slots__ = ("priority", "taken")

    def __init__(self, priority: Callable[[Item], int]) -> None:
        super().__init__()
        self.priority = priority
        self.taken = 0

    def add(self, item: Item) -> None:
        """Adds an item. A waiting item keeps its position."""
        self[item] = None

    def drop(self, item: Item) -> None:
        self.pop(item, None)

    def take(self) -> Item:
        """Removes and returns the next item. The order must not be empty."""
        if len(self) == 1:  # the case of most streams, which need no counting
            return self.popitem()[0]
        self.taken += 1
        # Among items with the same priority, max() takes the first added item.
        by_priority = self.taken % LONGEST_EVERY
        item = max(self, key=self.priority) if by_priority else next(iter(self))
        del self[item]
        return item
