"""Hears which topics moved in other processes: django-eventstream's Redis listener, adapted (topics/wake.py sends).

What we use of it: `RedisListener`, which takes its settings, subscribes to its channel and reads its messages. Other
Django code may go on publishing there with `send_event`; what is not ours is passed over.

What we replace, and why:
- The listener manager, to which `RedisListener` hands each message. The original queues an event for each listener;
  ours queues nothing and calls the hub, whose streams read the log themselves.
- `start`, which ends for ever when Redis goes away. Ours listens again.

eventstream.py uses django-eventstream's form of a request and of an event, and nothing that listens.
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

log = logging.getLogger(__name__)
TOPICS = "topics"  # in a message: that it is one of topics/wake.py
HEADS = re.compile(r"\d{1,19} \d{1,19}(?: \d{1,19} \d{1,19})*")  # topic ids, each with its head
RETRY_SECONDS = 1.0  # before we listen to Redis again; until then streams look for themselves

Moved = Callable[[int, int], None]  # topic id, head seq; called in the event loop that listens


class Wakes(views.RedisListener):
    """Calls `moved` for each topic that moved in any process, from start() until that is cancelled."""

    def __init__(self, moved: Moved) -> None:
        super().__init__()
        # RedisListener knows no receiver but this global of its module. There is one hub in a process, so one of us.
        views.listener_manager = Receiver(moved)

    async def start(self) -> None:
        """Listen until cancelled. While Redis is away this tries again each second, and loses only hints."""
        try:
            while True:
                try:
                    await self.listen()
                except (RedisError, OSError) as error:
                    log.warning("streams look for themselves until Redis is back: %s", error)
                await self.pubsub.aclose()
                await asyncio.sleep(RETRY_SECONDS)
                self.pubsub: Any = self.redis_client.pubsub()
        finally:
            await self.pubsub.aclose()
            await self.redis_client.aclose()


class Receiver(views.ListenerManager):
    """Stands where django-eventstream's listener manager stood, which would open a connection to Redis of its own."""

    def __init__(self, moved: Moved) -> None:
        self.moved = moved

    def add_to_queues(self, channel: str, event: Event) -> None:
        """A message came. Others may call a channel of theirs as we do: what they say there is not ours."""
        if channel != TOPICS or not isinstance(event.data, str) or not HEADS.fullmatch(event.data):
            return
        words = iter(map(int, event.data.split()))
        for topic_id, head_seq in zip(words, words, strict=True):
            self.moved(topic_id, head_seq)
