"""The webhooks that one process serves: takes and renews their leases, and wakes them for new records.

Wake-ups come from Redis (topics/wake.py) and are hints. A look at the heads finds what a lost one told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterator, Sequence

import redis.asyncio as redis
from django.conf import settings

from base import outage, redis_client
from base.errors import TopicsError
from push.delivery.batches import heads_of
from push.delivery.caller import Caller
from push.delivery.throttle import clock
from push.webhooks import leases, sources
from push.webhooks.config import wants
from push.webhooks.leases import LEASE_SECONDS, RENEW_SECONDS
from push.webhooks.serving import WebhookServing
from push.webhooks.sources import WebhookSource
from store.loop import Loop
from topics.wake import CHANNEL

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0  # between two looks for free webhooks
SWEEP_SECONDS = 15.0  # after a look at everything that a wake-up can tell
AWAY_SECONDS = 1.0  # pause after PostgreSQL or Redis did not answer


class Engine:
    """Lives in the event loop of the dispatcher."""

    def __init__(self, store: Loop) -> None:
        self.loop = asyncio.get_running_loop()
        self.store, self.caller = store, Caller()
        self.aside = Loop()  # a connection of its own: a renewal must not wait behind the statements of many webhooks
        self.serving: dict[int, WebhookServing] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.by_topic: dict[int, set[WebhookServing]] = {}
        self.others: set[int] = set()  # topics that no webhook of this process gets
        self.renewed = 0.0
        self.looks = asyncio.Lock()
        self.is_stopping = False

    # -- Leases --------------------------------------------------------------------------------------------------------

    async def look_forever(self) -> None:
        while True:
            with continuing("A look at the webhooks failed. The server retries"):
                await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, told: tuple[int, ...] = ()) -> None:
        """Renews leases when it is time, and takes free webhooks. `told`: webhooks that calls have changed."""
        async with self.looks:
            if told or self.loop.time() >= self.renewed + RENEW_SECONDS:
                await self.renew()
            await self.take()
            for id in told:
                if id in self.serving:
                    self.serving[id].look_again()

    async def renew(self) -> None:
        ours = {id: serving for id, serving in self.serving.items() if not serving.is_stopping}
        if ours:
            asked = clock()
            kept = await self.aside.drive(leases.renew({id: each.webhook.lease for id, each in ours.items()}))
            for id, serving in ours.items():
                if id not in kept:
                    serving.stop()
                else:
                    serving.lease_ends = asked + LEASE_SECONDS
        self.renewed = self.loop.time()

    async def take(self) -> None:
        if self.is_stopping:
            return
        asked = clock()
        for webhook in await self.store.drive(leases.take()):
            if (former := self.tasks.get(webhook.id)) is not None:  # it lets an earlier lease go
                await asyncio.wait((former,))
            serving = WebhookServing(self.store, self.caller, webhook, asked, self.joined)
            self.serving[webhook.id] = serving
            self.tasks[webhook.id] = self.loop.create_task(self.serve(serving))

    async def serve(self, serving: WebhookServing) -> None:
        id = serving.webhook.id
        try:
            await serving.serve()
        except TopicsError as error:
            outage.postgresql.note(error)
        except Exception:
            log.exception("Webhook %s failed in this process. The server retries", serving.webhook.name)
        finally:
            if self.serving.get(id) is serving:
                del self.serving[id], self.tasks[id]
            for topic_id in serving.sources:
                self.by_topic.get(topic_id, set()).discard(serving)

    def joined(self, source: WebhookSource, serving: WebhookServing) -> None:
        self.by_topic.setdefault(source.id, set()).add(serving)
        self.others.discard(source.id)

    # -- Sweeps --------------------------------------------------------------------------------------------------------

    async def sweep_forever(self) -> None:
        """Sweeps beside the looks: with very many topics a sweep can last longer than a lease."""
        while True:
            with continuing("A sweep of the webhooks failed. The server retries"):
                await self.sweep()
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Finds what lost wake-ups told: heads, new topics, and records that are due."""
        await self.store.drive(leases.set_back())
        alive = set(self.serving.values())
        left = {id: {each for each in ours & alive if id in each.sources} for id, ours in self.by_topic.items()}
        self.by_topic = {id: ours for id, ours in left.items() if ours}
        self.others.clear()
        for serving in alive:
            if not serving.is_stopping:
                await self.join(serving, quiet=False)
                serving.look_again()

    async def join(self, serving: WebhookServing, ids: Sequence[int] | None = None, *, quiet: bool = True) -> None:
        """Lets a webhook join topics. If this fails, the next sweep tries it again, and the other webhooks continue."""
        with continuing("The topics of webhook %s were not found. The next sweep retries", serving.webhook.name):
            await serving.join(ids, quiet=quiet)

    # -- Wake-ups ------------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Receives new heads of topics forever.

        Without webhooks nothing listens: wake-ups of all topics would cost an append-only server a tenth of a core.
        """
        client = redis_client.connect_async(settings.REDIS_URL, socket_timeout=None, socket_connect_timeout=2)
        try:
            while True:
                if not self.serving:
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                try:
                    async with client.pubsub(ignore_subscribe_messages=True) as heard:
                        await heard.subscribe(CHANNEL)
                        await self.look_at_heads()  # finds heads that advanced before we had subscribed
                        async for message in heard.listen():
                            words = json.loads(message["data"])["data"].split()
                            await self.moved(dict(zip(map(int, words[::2]), map(int, words[1::2]), strict=True)))
                            if not self.serving:
                                break
                except TopicsError as error:
                    outage.postgresql.note(error)
                except (redis.RedisError, OSError) as error:
                    outage.redis.note(error)
                except Exception:
                    log.exception("Wake-ups were lost. The next sweep finds the records")
                await asyncio.sleep(AWAY_SECONDS)
        finally:
            await client.aclose()

    async def look_at_heads(self) -> None:
        await self.moved(await self.store.drive(heads_of(list(self.by_topic))))

    async def moved(self, heads: dict[int, int]) -> None:
        """Handles new heads, by topic."""
        if told := tuple(-id for id in heads if id < 0):
            await self.look(told)
        strangers = []
        for topic_id, head in heads.items():
            if topic_id in self.by_topic:
                for serving in tuple(self.by_topic[topic_id]):
                    serving.heard(topic_id, head)
            elif topic_id > 0 and topic_id not in self.others:
                strangers.append(topic_id)
        if strangers and self.serving:
            await self.meet(strangers)

    async def meet(self, topic_ids: list[int]) -> None:
        """Tells webhooks of topics that are new here."""
        names = await self.store.drive(sources.names_of(topic_ids))
        self.others.update(topic_ids)
        for serving in list(self.serving.values()):
            topics, prefixes = serving.settings.topics, serving.webhook.prefixes
            if new := [id for id, name in names.items() if wants(topics, prefixes, name)]:
                await self.join(serving, new)

    async def close(self) -> None:
        """Lets all webhooks go."""
        self.is_stopping = True
        for serving in self.serving.values():
            serving.stop()
        if self.tasks:
            await asyncio.wait(list(self.tasks.values()))
        self.caller.close()
        await self.aside.close()


@contextlib.contextmanager
def continuing(failed: str, *names: str) -> Iterator[None]:
    """Logs an error, and continues behind the block. `failed`: the line for an error of our own code."""
    try:
        yield
    except TopicsError as error:
        outage.postgresql.note(error)
    except Exception:
        log.exception(failed, *names)


async def run(engine: Engine, ended: asyncio.Event) -> None:
    """Serves webhooks until `ended` is set."""
    tasks = [asyncio.create_task(each) for each in (engine.look_forever(), engine.sweep_forever(), engine.listen())]
    await ended.wait()
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await engine.close()
