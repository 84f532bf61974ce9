"""What a process knows of the subscribers' queues: whose each is, and which topics it is filled from. Read anew each second."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from store.loop import Loop
from store.script import Script, Statement

KNOWN_SECONDS = 1.0  # so old may be what we know

# Whose queue a topic is; and which topics a queue takes its events from, and whether it takes them together.
QUEUES = "SELECT t.id, s.client_id FROM push_subscriber s JOIN topics_topic t ON t.name = s.queue"
SOURCES = """
SELECT r.source_id, s.client_id, t.id, r.ordered
  FROM push_subscriber s JOIN topics_topic t ON t.name = s.queue JOIN routers_router r ON r.dest_id = t.id
"""


class Queues:
    """Topics and subscribers are told by their ids. Whoever subscribes is known here a second later: until then the sweep
    (courier.py) delivers to it."""

    def __init__(self, store: Loop) -> None:
        self.store = store
        self.owners: dict[int, int] = {}  # by queue: whose it is
        self.ordered: dict[int, int] = {}  # by subscriber: the queue that is filled from several topics
        self.sources: dict[int, set[int]] = {}  # by topic: the subscribers whose queues those are
        self.plain: set[int] = set()  # topics that are all that some queue gets
        self.others: set[int] = set()  # topics that are no queue's business
        self.known_until = 0.0

    def __bool__(self) -> bool:
        return bool(self.owners or self.sources or self.plain)

    def topics(self) -> list[int]:
        """All queues and what they are filled from."""
        return [*self.owners, *self.sources.keys() | self.plain]

    def knows(self, topic_id: int) -> bool:
        return any(topic_id in each for each in (self.others, self.owners, self.sources, self.plain))

    async def keep_up(self, topic_ids: Collection[int]) -> None:
        """Learn anew where it is time, or where there is a topic among these that we do not know."""
        if time.monotonic() > self.known_until or not all(map(self.knows, topic_ids)):
            await self.learn(topic_ids)

    async def learn(self, topic_ids: Collection[int] = ()) -> None:
        """Find out whose queues there are. Those of these topics that are no queue's business are remembered for a second."""
        owners = dict(await self.store.drive(rows(QUEUES)))
        sources: dict[int, set[int]] = {}
        ordered: dict[int, int] = {}
        plain: set[int] = set()
        for source_id, id, queue_id, together in await self.store.drive(rows(SOURCES)):
            if together:
                sources.setdefault(source_id, set()).add(id)
                ordered[id] = queue_id
            else:
                plain.add(source_id)
        # All at once: others of this loop read them while we wait for PostgreSQL.
        self.owners, self.ordered, self.sources, self.plain = owners, ordered, sources, plain
        if time.monotonic() > self.known_until:
            self.others.clear()
            self.known_until = time.monotonic() + KNOWN_SECONDS
        self.others.update(id for id in topic_ids if not self.knows(id))


def rows(statement: str) -> Script[list[Any]]:
    found: list[Any] = yield Statement(statement)
    return found
