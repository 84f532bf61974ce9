"""The readings of one connection, one at a time: by highest effective priority, and regularly the longest-waiting topic.

A backlog in a topic therefore does not delay a more urgent topic, and every topic gets a turn. If n topics wait, each topic is
read within `LONGEST_EVERY` times n readings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from watch.batch import Batch
from watch.hub import Hub
from watch.position import Position
from watch.reading import Reading, Waiter

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


class TopicReads:
    """The topics of a connection that wait to be read, and the reading under way: at most one."""

    def __init__(self, hub: Hub, waiter: Waiter) -> None:
        self.hub, self.waiter = hub, waiter
        self.order: Order[Position] = Order(lambda position: hub.priorities.get(position.topic_id, 0))
        self.reading: Reading | None = None  # runs, or is done and not taken
        self.position: Position | None = None  # the position of `reading`

    def add(self, position: Position) -> None:
        """Queues a read of a topic."""
        self.order.add(position)

    def drop(self, position: Position) -> None:
        """Drops the queued read and the reading of a topic."""
        self.order.drop(position)
        if self.position is position:
            self.reading = self.position = None

    @property
    def is_done(self) -> bool:
        """Whether `take` has a reading."""
        return self.reading is not None and self.reading.done

    def ask(self) -> bool:
        """Asks for a reading of the next topic, unless a reading runs. Returns whether `take` has a reading."""
        if self.reading is None and self.order:
            position = self.position = self.order.take()
            self.reading = self.hub.feeds.ask(
                position.name, position.topic_id, position.seq, position.view, position.read_since
            )
            if not self.reading.done:
                self.reading.waiting.append(self.waiter)
        return self.is_done

    def take(self) -> tuple[Position, Batch | None]:
        """Takes the reading that is done, and queues the next read if the topic has more. Returns the topic's position, and the
        batch to advance by. The batch is None if the position cannot advance."""
        reading, position = self.reading, self.position
        assert reading is not None
        assert position is not None
        self.reading = self.position = None
        batch = position.taken(reading)
        if position.is_behind:
            self.order.add(position)
        else:
            self.order.drop(position)
        return position, batch
