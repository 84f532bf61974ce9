"""Receives the heads that other processes advance, with an adapted Redis listener of django-eventstream (topics/wake.py sends).

We use the settings, the subscription and the message parser of `RedisListener`. Other Django code may still publish on the
channel with `send_event`. We ignore foreign messages.

We replace two parts:
- The listener manager, to which `RedisListener` passes each message. The original queues an event for each listener. Ours queues
  nothing and calls the hub, whose streams read the log themselves.
- `start`, which ends for ever if Redis becomes unavailable. Ours listens again.

eventstream.py uses django-eventstream's form of a request and of an event, but none of its listeners.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

from django_eventstream import views
from django_eventstream.event import Event
from redis.exceptions import RedisError

from topics import wake

log = logging.getLogger(__name__)
TOPICS = "topics"  # the channel of messages from topics/wake.py
HEADS = re.compile(r"\d{1,19} \d{1,19}(?: \d{1,19} \d{1,19})*")  # topic ids, each with its head
RETRY_SECONDS = 1.0  # before we listen to Redis again; meanwhile the hub's query each second finds new records

Moved = Callable[[int, int], None]  # topic id, head seq; called in the event loop that listens


class Wakes(views.RedisListener):
    """Calls `moved` for each topic whose head advanced in another process, from start() until start() is cancelled."""

    def __init__(self, moved: Moved) -> None:
        super().__init__()
        # RedisListener finds the receiver only in a global of its module. A process has a single hub, and a single Wakes.
        views.listener_manager = Receiver(moved)

    async def start(self) -> None:
        """Listens until cancelled. While Redis is unavailable, it retries each second, and only hints are lost."""
        try:
            while True:
                try:
                    await self.listen()
                except (RedisError, OSError) as error:
                    log.warning("No wake-ups from Redis: %s. Streams query PostgreSQL until Redis answers", error)
                await self.pubsub.aclose()
                await asyncio.sleep(RETRY_SECONDS)
                self.pubsub: Any = self.redis_client.pubsub()
        finally:
            await self.pubsub.aclose()
            await self.redis_client.aclose()


class Receiver(views.ListenerManager):
    """Replaces django-eventstream's listener manager, which would open its own connection to Redis."""

    def __init__(self, moved: Moved) -> None:
        self.moved = moved
        self.own = wake.sender()

    def add_to_queues(self, channel: str, event: Event) -> None:
        """Handles a message. Other code may use the same channel name, so messages in another form are ignored.

        The hub already knows the heads that its own process has advanced (`Hub.hint`).
        """
        if event.id == self.own:
            return
        if channel != TOPICS or not isinstance(event.data, str) or not HEADS.fullmatch(event.data):
            return
        words = iter(map(int, event.data.split()))
        for topic_id, head_seq in zip(words, words, strict=True):
            self.moved(topic_id, head_seq)
