"""The dispatcher forwards new events of a topic into the queues that only this topic fills: all queues in one statement.

Router workers learn of the same events. The process that locks a router's cursor first forwards. The dispatcher itself needs no
Celery message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import redis.asyncio as redis

from base.clock import now_ms
from base.errors import TopicsError
from push.delivery.throttle import Throttle
from routers.advance import Moved, advancing
from routers.tasks import HELD, flag
from store.loop import Loop
from topics import wake

log = logging.getLogger(__name__)
HOLD_MS = (
    3_000  # after the dispatcher forwarded in a flood, router workers leave the topic to the dispatcher for this long
)


class Forwarding:
    """Forwards each topic in one call at a time. Events that arrive meanwhile are forwarded by the next step."""

    def __init__(self, store: Loop, client: redis.Redis, throttle: Throttle, moved: Callable[[Moved], None]) -> None:
        """`moved` is called for each queue that received events."""
        self.store, self.client, self.throttle, self.moved = store, client, throttle, moved
        self.more: dict[int, bool] = {}  # topics being forwarded now: whether more events arrived meanwhile
        self.stopping = False

    async def forward(self, source_id: int) -> None:
        """Forwards until nothing is left. If a call for this topic already runs, the running call forwards the new events."""
        if source_id in self.more:
            self.more[source_id] = True
            return
        more = self.more[source_id] = True
        try:
            while more and not self.stopping:
                self.more[source_id] = False
                more = await self.step(source_id) or self.more[source_id]
        except (TopicsError, redis.RedisError, OSError) as error:
            log.warning("Cannot forward events in this process: %s. The workers forward them", error)
        finally:
            del self.more[source_id]

    async def step(self, source_id: int) -> bool:
        """Forwards one step. Returns whether more events are left."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        steps = await self.store.drive(advancing(source_id, now_ms()))
        took = loop.time() - began
        for step in steps:
            if step.moved:
                wake.announce(step.topic_id, step.head_seq, step.routed)
                self.moved(step)
        if self.throttle.dense:
            await self.client.set(flag(source_id), HELD, px=HOLD_MS)
        # Publishers of a topic that receives event after event need the cores too: the pause leaves the cores to them.
        await asyncio.sleep(self.throttle.rest_after(took, len(steps)))
        return any(step.more for step in steps)
