"""Statements that may have to wait for a topic's head, on connections that other statements do not need.

A read of a topic that routers lead into first forwards what lies upstream, and may find the topic's head locked by somebody
who does not go on. It then gives its connection back and tries again, and so does one read of that topic after the other: so
that neither the topics that nothing leads into nor the other ones wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from django.conf import settings
from psycopg.errors import LockNotAvailable

from base.errors import NotReady
from store.connection import Connection
from store.readers import Readers

T = TypeVar("T")
READERS = 3  # connections of an event loop for them
HOLD_MS = 100  # how long such a read may keep its connection while it waits for a lock
MOST_SECONDS = settings.TOPICS_LOCK_TIMEOUT_MS / 1000 or float("inf")


class Turns:
    """Lives in an event loop."""

    def __init__(self) -> None:
        self.readers = Readers(READERS, min(HOLD_MS, settings.TOPICS_LOCK_TIMEOUT_MS) or HOLD_MS)
        self.turns: dict[int, asyncio.Lock] = {}  # of topics that were found locked: their reads go one by one

    async def read(self, topic_id: int, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do some work that may be done twice. Raises NotReady, also when the topic stays locked for too long."""
        deadline = asyncio.get_running_loop().time() + MOST_SECONDS
        while True:
            try:
                turn = self.turns.get(topic_id)
                return await (
                    self.readers.read(work) if turn is None else self.take_turn(turn, topic_id, work, deadline)
                )
            except NotReady as error:
                if not isinstance(error.__cause__, LockNotAvailable) or asyncio.get_running_loop().time() >= deadline:
                    raise
                self.turns.setdefault(topic_id, asyncio.Lock())

    async def take_turn(
        self, turn: asyncio.Lock, topic_id: int, work: Callable[[Connection], Awaitable[T]], deadline: float
    ) -> T:
        try:
            async with asyncio.timeout_at(deadline):
                await turn.acquire()
        except TimeoutError as error:
            raise NotReady("somebody else holds this topic, and has not let go in time") from error
        try:
            done = await self.readers.read(work)
        finally:
            turn.release()
        self.turns.pop(topic_id, None)  # it is free again: nobody who comes now waits for his turn
        return done
