"""Receives the heads that other processes advance, with an adapted Redis listener of django-eventstream (topics/wake.py sends).

We use the settings and the subscription of `RedisListener`, and replace three parts:
- The channel `events_channel`. All sites in a Redis have it, so ours begins with the site's prefix.
- `listen`, which queues an event for each listener. Ours calls the hub, whose streams read the log themselves. Several processes
  send up to 200 messages a second each, so ours reads them from the connection, without the layers of redis-py between.
- `start`, which ends for ever if Redis becomes unavailable. Ours listens again.

eventstream.py uses django-eventstream's form of a request and of an event, but none of its listeners.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from math import inf
from typing import Any

from django_eventstream import views
from redis.exceptions import RedisError

from base import outage
from topics import wake

HEADS = r"(\d{1,19} \d{1,19}(?: \d{1,19} \d{1,19})*)"  # topic ids, each with its head
MESSAGE = re.compile((re.escape(wake.MESSAGE) % (HEADS, '[^"]*')).encode())
RETRY_SECONDS = 1.0  # before we listen to Redis again; meanwhile the hub's query each second finds new records

Moved = Callable[[int, int], None]  # topic id, head seq; called in the event loop that listens


class Wakes(views.RedisListener):
    """Calls `moved` for each topic whose head advanced in another process, from start() until start() is cancelled."""

    def __init__(self, moved: Moved) -> None:
        super().__init__()
        self.moved = moved
        self.own = f'"{wake.sender()}"}}'.encode()  # the end of messages of this process

    async def start(self) -> None:
        """Listens until cancelled. While Redis is unavailable, it retries each second, and only hints are lost."""
        try:
            while True:
                try:
                    await self.listen()
                except (RedisError, OSError) as error:
                    outage.redis.note(error)
                await self.pubsub.aclose()
                await asyncio.sleep(RETRY_SECONDS)
                self.pubsub: Any = self.redis_client.pubsub()
        finally:
            await self.pubsub.aclose()
            await self.redis_client.aclose()

    async def listen(self) -> None:
        await self.pubsub.subscribe(wake.CHANNEL)
        while True:
            kind, *_, message = await self.pubsub.connection.read_response(
                disable_decoding=True, timeout=inf, disconnect_on_error=False, push_request=True
            )
            if kind == b"message":
                self.take(message)

    def take(self, message: bytes) -> None:
        """Calls `moved` for the heads of a message. A message in another form is ignored, for example of another version.

        The hub already knows the heads that its own process has advanced (`Hub.hint`).
        """
        if message.endswith(self.own) or (found := MESSAGE.fullmatch(message)) is None:
            return
        words = iter(map(int, found[1].split()))
        for topic_id, head_seq in zip(words, words, strict=True):
            self.moved(topic_id, head_seq)
