"""A process's knowledge of the subscribers' queues: their owners, and the topics that fill them. Refreshed every second."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from store.loop import Loop
from store.script import Script, Statement

KNOWN_SECONDS = 1.0  # maximum age of the knowledge

# QUEUES: each queue, its subscriber and the name of the subscriber.
# SOURCES: the topics that fill each queue, and whether the queue merges several of them.
QUEUES = """
SELECT t.id, s.client_id, c.name || '.' || c.id
  FROM push_subscriber s JOIN topics_topic t ON t.name = s.queue JOIN push_busclient c ON c.id = s.client_id
"""
SOURCES = """
SELECT r.source_id, s.client_id, t.id, r.ordered
  FROM push_subscriber s JOIN topics_topic t ON t.name = s.queue JOIN routers_router r ON r.dest_id = t.id
"""


class Queues:
    """Owners and sources of queues, by ids of topics and of subscribers.

    A new subscriber is known here at most a second later. Until then the sweep (dispatcher.py) delivers to the subscriber.
    """

    def __init__(self, store: Loop) -> None:
        self.store = store
        self.owners: dict[int, int] = {}  # queue: its subscriber
        self.names: dict[int, str] = {}  # subscriber: its name, for the log
        self.ordered: dict[int, int] = {}  # subscriber: its queue, if several topics fill the queue
        self.sources: dict[int, set[int]] = {}  # topic: the subscribers whose `ordered` queues the topic fills
        self.plain: set[int] = set()  # topics that are the only source of some queue
        self.others: set[int] = set()  # topics that neither are nor fill a queue
        self.known_until = 0.0

    def __bool__(self) -> bool:
        return bool(self.owners or self.sources or self.plain)

    def topics(self) -> list[int]:
        """Returns the ids of all queues and of the topics that fill them."""
        return [*self.owners, *self.sources.keys() | self.plain]

    def knows(self, topic_id: int) -> bool:
        return any(topic_id in each for each in (self.others, self.owners, self.sources, self.plain))

    async def keep_up(self, topic_ids: Collection[int]) -> None:
        """Calls learn() if the knowledge is too old, or if one of these topics is unknown."""
        if time.monotonic() > self.known_until or not all(map(self.knows, topic_ids)):
            await self.learn(topic_ids)

    async def learn(self, topic_ids: Collection[int] = ()) -> None:
        """Reads all queues and their sources. Remembers for a second which of `topic_ids` have to do with no queue."""
        found = await self.store.drive(rows(QUEUES))
        owners = {queue_id: id for queue_id, id, _ in found}
        sources: dict[int, set[int]] = {}
        ordered: dict[int, int] = {}
        plain: set[int] = set()
        for source_id, id, queue_id, together in await self.store.drive(rows(SOURCES)):
            if together:
                sources.setdefault(source_id, set()).add(id)
                ordered[id] = queue_id
            else:
                plain.add(source_id)
        self.names = {id: name for _, id, name in found}
        # All four change at once, because other tasks of this loop read them while this task waits for PostgreSQL.
        self.owners, self.ordered, self.sources, self.plain = owners, ordered, sources, plain
        if time.monotonic() > self.known_until:
            self.others.clear()
            self.known_until = time.monotonic() + KNOWN_SECONDS
        self.others.update(id for id in topic_ids if not self.knows(id))


def rows(statement: str) -> Script[list[Any]]:
    found: list[Any] = yield Statement(statement)
    return found
