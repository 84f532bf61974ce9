"""Deliveries of one worker process: an event loop that knows which subscribers are due (docs/push.md).

Wake-ups come from Redis (topics/wake.py), and times from the loop's timers. Both are hints and can be lost: the sweep
(tasks.py) finds overdue subscribers. Only leases decide which process may deliver (sql/functions/push_batch.sql).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Coroutine
from typing import Any

import redis.asyncio as redis
from django.conf import settings

from base import outage, redis_client
from base.clock import now_ms
from base.errors import TopicsError
from push.delivery.batches import Taken, heads_of, overdue, set_back
from push.delivery.deliveries import Deliveries
from push.delivery.forwarding import Forwarding
from push.delivery.queues import KNOWN_SECONDS, Queues
from push.delivery.throttle import Throttle
from push.reports import counters
from routers.advance import Moved
from store.loop import here
from topics.wake import CHANNEL

log = logging.getLogger(__name__)
OURS_MS = 10_000  # length of a claim in Redis: other processes leave a subscriber to us, because we have the connection
REST_SECONDS = 0.05  # between two looks at a queue that waits for its timeout while event after event arrives
LOOK_SECONDS = 0.1  # between two reads of the heads, while publishers need the cores
AWAY_SECONDS = 1.0  # pause after PostgreSQL or Redis did not answer
STOP_SECONDS = 5.0  # time for running calls when the process stops


def dispatcher_of(subscriber_id: int) -> str:
    """Returns the key of a claim in Redis."""
    return f"{settings.TOPICS_REDIS_PREFIX}dispatcher:{subscriber_id}"


class Dispatcher:
    """Delivers the queues of all subscribers. Lives in its own event loop and thread."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = here()  # the connections that steps of topics use in this loop, too
        self.redis = redis_client.connect_async(settings.REDIS_URL, socket_timeout=None, socket_connect_timeout=2)
        self.throttle = Throttle(self.store)
        self.queues = Queues(self.store)
        self.forwarding = Forwarding(self.store, self.redis, self.throttle, self.forwarded)
        self.deliveries = Deliveries(self.store, self.queues, self.throttle)
        self.name = secrets.token_hex(8)  # name of this process in Redis
        self.heads: dict[int, int] = {}  # heads of queues and of their sources, at the last look_once()
        self.busy: dict[int, int] = {}  # subscribers being served: a hint's head, 1 for an unknown head, 0 for no hint
        self.waiting: dict[int, int | None] = {}  # subscribers with a timer: the head that ends the wait early
        self.timers: dict[int, asyncio.TimerHandle] = {}
        self.looked: dict[int, float] = {}  # subscriber: when its last delivery ended (loop time)
        self.ours: dict[int, float] = {}  # claimed subscribers: until when no other process claims them
        self.tasks: set[asyncio.Task[None]] = set()
        self.stopping = False

    # -- Due subscribers ----------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Receives new heads of topics forever."""
        while not self.stopping:
            try:
                await self.queues.learn()
                # Without subscribers nothing listens: wake-ups of all topics would cost an append-only server a tenth of a core.
                if not self.queues:
                    await asyncio.sleep(KNOWN_SECONDS)
                    continue
                await self.look()
                async with self.redis.pubsub(ignore_subscribe_messages=True) as heard:
                    await heard.subscribe(CHANNEL)
                    await self.look_once()  # finds heads that advanced before we had subscribed
                    async for message in heard.listen():
                        words = json.loads(message["data"])["data"].split()
                        await self.moved(dict(zip(map(int, words[::2]), map(int, words[1::2]), strict=True)))
                        if self.throttle.dense or not self.queues:
                            break
            except TopicsError as error:
                outage.postgresql.note(error)
                await asyncio.sleep(AWAY_SECONDS)
            except (redis.RedisError, OSError) as error:
                outage.redis.note(error)
                await asyncio.sleep(AWAY_SECONDS)
            except Exception:
                log.exception("Wake-ups were lost. The next poll finds the events")
                await asyncio.sleep(AWAY_SECONDS)

    async def look(self) -> None:
        """Polls heads instead of listening, while publishers need the cores.

        Each publishing process would send 200 wake-ups a second. Receiving them costs a tenth of the CPU time that the
        publishers need themselves.
        """
        while self.throttle.dense and not self.stopping:
            began = self.loop.time()
            await self.look_once()
            await asyncio.sleep(max(self.throttle.rest_after(self.loop.time() - began), LOOK_SECONDS))

    async def look_once(self) -> None:
        """Reads the heads once, and handles the changed ones. For a topic that is new here, the sweep finds earlier events."""
        heads = await self.store.drive(heads_of(self.queues.topics()))
        moved = {id: head for id, head in heads.items() if head != self.heads.get(id, head)}
        self.heads = heads
        await self.moved(moved)

    async def moved(self, heads: dict[int, int]) -> None:
        """Handles new heads, by topic: forwards events, and starts or hints at deliveries."""
        queues = self.queues
        await queues.keep_up(heads.keys())
        strangers: list[int] = []
        for topic_id, head in heads.items():
            if (id := queues.owners.get(topic_id)) is not None and id not in queues.ordered and not self.hint(id, head):
                strangers.append(id)
            strangers += [id for id in queues.sources.get(topic_id, ()) if not self.hint(id, None)]
            if topic_id in queues.plain:
                self.begin(self.forwarding.forward(topic_id))
            if topic_id in queues.plain or topic_id in queues.sources:
                self.throttle.heard(topic_id, head)
        if strangers:
            for id in await self.claim(strangers):
                self.attend(id)

    def forwarded(self, move: Moved) -> None:
        """Hints at the events that this process itself forwarded into a queue."""
        if (id := self.queues.owners.get(move.topic_id)) is not None:
            self.hint(id, move.head_seq)

    def hint(self, id: int, head: int | None) -> bool:
        """Handles new events in a subscriber's queue. `head`: the queue's new head, or None if unknown.

        Returns False if another process may serve the subscriber.
        """
        if id in self.busy:
            self.busy[id] = max(self.busy[id], head or 1)
        elif id in self.waiting:
            full_seq = self.waiting[id]
            if full_seq is not None and (head is None or head >= full_seq):
                rest = 0.0 if head is not None else self.looked.get(id, 0.0) + REST_SECONDS - self.loop.time()
                if rest <= 0:
                    self.attend(id)
                elif self.timers[id].when() > self.loop.time() + rest:
                    self.later(id, rest, full_seq)
        elif self.ours.get(id, 0.0) > self.loop.time():
            self.attend(id)
        else:
            return False
        return True

    async def claim(self, ids: list[int]) -> list[int]:
        """Claims subscribers for this process. Returns the claimed ones.

        The first process that hears of a subscriber claims the subscriber, until a long pause lets the claim expire. Claims
        are only hints: leases decide which process delivers.
        """
        keys = [dispatcher_of(id) for id in ids]
        async with self.redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.set(key, self.name, nx=True, px=OURS_MS)
                pipeline.get(key)
            owners = (await pipeline.execute())[1::2]
            ours = [id for id, owner in zip(ids, owners, strict=True) if owner == self.name.encode()]
            for id in ours:
                pipeline.pexpire(dispatcher_of(id), OURS_MS)
                self.ours[id] = self.loop.time() + OURS_MS / 2000
            if ours:
                await pipeline.execute()
        return ours

    async def sweep(self) -> int:
        """Delivers to overdue subscribers that no process serves. Returns the number of those subscribers."""
        await self.queues.learn()
        await self.store.drive(set_back())
        ids = await self.store.drive(overdue(now_ms()))
        for id in ids:
            if id not in self.busy:
                self.attend(id)
        return len(ids)

    def later(self, id: int, seconds: float, full_seq: int | None) -> None:
        """Attends to a subscriber after some seconds, or once the head of the queue reaches `full_seq`."""
        if (timer := self.timers.pop(id, None)) is not None:
            timer.cancel()
        self.waiting[id] = full_seq
        self.timers[id] = self.loop.call_later(seconds, self.attend, id)

    # -- Delivering ---------------------------------------------------------------------------------------------------

    def attend(self, id: int) -> None:
        """Starts a delivery to a subscriber. A delivery that already runs looks once more before the end."""
        if id in self.busy:
            self.busy[id] = max(self.busy[id], 1)
        if id in self.busy or self.stopping:
            return
        self.waiting.pop(id, None)
        if (timer := self.timers.pop(id, None)) is not None:
            timer.cancel()
        self.busy[id] = 0
        self.begin(self.deliver(id))

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def deliver(self, id: int) -> None:
        """Delivers everything that is due to a subscriber."""
        taken = Taken("idle")
        try:
            while not self.stopping:
                self.busy[id] = 0
                taken = await self.deliveries.deliver(id)
                # A hint named more events than this delivery saw: look again, unless they are too few for a full batch.
                told = self.busy[id]
                if not told or (taken.verdict == "wait" and (taken.full_seq is None or 1 < told < taken.full_seq)):
                    break
                if taken.verdict == "wait" and told == 1:  # a queue of several topics: no look for each event
                    taken = taken._replace(wait_ms=min(taken.wait_ms or 0, int(REST_SECONDS * 1000)))
                    break
        except TopicsError as error:
            outage.postgresql.note(error)
            taken = Taken("wait", int(AWAY_SECONDS * 1000))
        except Exception:
            log.exception("A delivery failed in this process. The server retries")
            taken = Taken("wait", int(AWAY_SECONDS * 1000))
        finally:
            self.busy.pop(id, None)
            self.looked[id] = self.loop.time()
        if taken.verdict == "wait" and not self.stopping:
            self.later(id, (taken.wait_ms or 0) / 1000 + 0.001, taken.full_seq)

    async def close(self) -> None:
        """Starts nothing more, and gives running work STOP_SECONDS to end."""
        self.stopping = self.forwarding.stopping = True
        for timer in self.timers.values():
            timer.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=STOP_SECONDS)
        self.deliveries.callbacks.close()
        counters.add("process", "status:stop,type:worker")
        with contextlib.suppress(TopicsError):
            await counters.flush_soon(self.store)
        await self.redis.aclose()
        await self.store.close()
