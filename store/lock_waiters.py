"""Statements that may have to wait for a topic's head, on connections that other statements do not need.

A read of a router's dest first forwards the records upstream. It may find the topic's head locked by a transaction that does not
end. Then the read gives its connection back and tries again, in the queue of that head (held.py). So reads of other topics do not
wait, whether the topics have routers or not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from django.conf import settings
from psycopg.errors import LockNotAvailable

from base.errors import NotReady
from store.connection import Connection
from store.held import LONG_MS, HeldLocks
from store.pool import Pool

T = TypeVar("T")
READERS = 1  # connections of an event loop for such statements


class LockWaiters:
    """The connections and queues of one event loop for such statements."""

    def __init__(self, held: HeldLocks) -> None:
        self.readers = Pool(READERS, min(LONG_MS, settings.TOPICS_LOCK_TIMEOUT_MS) or LONG_MS)
        self.held = held

    async def read(self, topic_id: int, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Call `work` with a connection, and return its result. `work` may run twice.

        Raises NotReady, also if the topic stays locked for too long.
        """
        if not self.held.is_held(topic_id):
            try:
                return await self.readers.read(work)
            except NotReady as error:
                if not isinstance(error.__cause__, LockNotAvailable):
                    raise
            self.held.note(topic_id)
        async with self.held.turn(topic_id) as deadline:
            while True:
                try:
                    return await self.readers.read(work)
                except NotReady as error:
                    if not isinstance(error.__cause__, LockNotAvailable) or self.held.loop.time() >= deadline:
                        raise
