"""Statements that may have to wait for a topic's head, on connections that other statements do not need.

A read of a topic that routers lead into first forwards what lies upstream, and may find the topic's head locked by somebody
who does not go on. It then gives its connection back and tries again, in the line of that head (held.py): so that neither the
topics that nothing leads into nor the other ones wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from django.conf import settings
from psycopg.errors import LockNotAvailable

from base.errors import NotReady
from store.connection import Connection
from store.held import LONG_MS, HeldLocks
from store.readers import Readers

T = TypeVar("T")
READERS = 3  # connections of an event loop for them


class Turns:
    """Lives in an event loop."""

    def __init__(self, held: HeldLocks) -> None:
        self.readers = Readers(READERS, min(LONG_MS, settings.TOPICS_LOCK_TIMEOUT_MS) or LONG_MS)
        self.held = held

    async def read(self, topic_id: int, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do some work that may be done twice. Raises NotReady, also when the topic stays locked for too long."""
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
