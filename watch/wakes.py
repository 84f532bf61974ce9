"""Hears which topics moved in other processes: django-eventstream's Redis listener, kept up (topics/wake.py sends)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from django_eventstream.views import RedisListener
from redis.exceptions import RedisError

from watch import eventstream  # noqa: F401 - takes the place of the listener manager that messages go to

log = logging.getLogger(__name__)
RETRY_SECONDS = 1.0  # before we listen to Redis again; until then streams look for themselves


class Wakes(RedisListener):
    """Each message goes to the listener manager, which is ours (eventstream.py)."""

    async def start(self) -> None:
        """Listen until cancelled."""
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
