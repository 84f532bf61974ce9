"""The courier forwards what a topic got into the queues that are filled from it alone: all of them in one statement.

A worker of routers was told, too, and whoever gets a router's cursor does it. The courier needs no message to be carried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import redis.asyncio as redis

from base.clock import now_ms
from base.errors import TopicsError
from push.crowd import Crowd
from routers.advance import Moved, advancing
from routers.tasks import HELD, flag
from store.loop import Loop
from topics import wake

log = logging.getLogger(__name__)
HOLD_MS = 3_000  # for so long after we forwarded in a flood, workers of routers leave the topic to us


class Forwarding:
    """One topic at a time is forwarded once at a time; what it gets meanwhile goes with the next step."""

    def __init__(self, store: Loop, client: redis.Redis, crowd: Crowd, moved: Callable[[Moved], None]) -> None:
        """`moved` is told of each queue that something came into."""
        self.store, self.client, self.crowd, self.moved = store, client, crowd, moved
        self.more: dict[int, bool] = {}  # by topic that is forwarded now: whether it got more meanwhile
        self.stopping = False

    async def forward(self, source_id: int) -> None:
        """Forward until nothing is left. Where somebody here is at it, he goes on for us."""
        if source_id in self.more:
            self.more[source_id] = True
            return
        more = self.more[source_id] = True
        try:
            while more and not self.stopping:
                self.more[source_id] = False
                more = await self.step(source_id) or self.more[source_id]
        except (TopicsError, redis.RedisError, OSError) as error:
            log.warning("events are forwarded by the workers of routers: %s", error)
        finally:
            del self.more[source_id]

    async def step(self, source_id: int) -> bool:
        """Returns whether there was more than a step takes."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        steps = await self.store.drive(advancing(source_id, now_ms()))
        took = loop.time() - began
        for step in steps:
            if step.moved:
                wake.announce(step.topic_id, step.head_seq, step.routed)
                self.moved(step)
        if self.crowd.dense:
            await self.client.set(flag(source_id), HELD, px=HOLD_MS)
        # A topic that gets event after event is left alone for a while: its publishers need the cores as well.
        await asyncio.sleep(self.crowd.rest_after(took, len(steps)))
        return any(step.more for step in steps)
