"""The webhooks that one process serves, against a real PostgreSQL: what the engine keeps of topics and webhooks that are gone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from base.clock import now_ms
from push.webhooks import sources, webhooks
from push.webhooks.config import PutWebhook
from push.webhooks.engine import Engine
from store.loop import here
from store.script import Script, run
from tests.deadlines import DEADLINE
from tests.scripts import put_topic
from topics.config import Config
from topics.delete.topic import delete_topic
from wire.access.keys import OPEN

pytestmark = pytest.mark.django_db(transaction=True)
_numbers = itertools.count(1)


def new_topic() -> str:
    name = f"engine-{next(_numbers)}"
    put_topic(name, Config(), now_ms())
    return name


def hooked(*topics: str) -> int:
    """Makes a webhook with topics that have no record yet, and returns its id."""
    wanted = msgspec.convert({"url": "https://127.0.0.1:9/", "topics": list(topics)}, PutWebhook)
    return run(webhooks.put(f"engine-{next(_numbers)}", wanted, OPEN, now_ms())).webhook.id


def serve(test: Callable[[Engine], Awaitable[None]]) -> None:
    """Runs a test with an engine."""

    async def begin() -> None:
        store = here()
        engine = Engine(store)
        try:
            await asyncio.wait_for(test(engine), DEADLINE)
        finally:
            await engine.close()
            await store.close()

    asyncio.run(begin())


def test_it_forgets_deleted_topics_also_if_their_webhook_ends_later() -> None:
    kept, gone = new_topic(), new_topic()
    one, two = hooked(kept, gone), hooked(gone)

    async def test(engine: Engine) -> None:
        await engine.look()
        await engine.sweep()  # joins the topics
        names = await engine.store.drive(sources.names_of(list(engine.by_topic)))
        ids = {name: id for id, name in names.items()}
        serving, other = engine.serving[one], engine.serving[two]
        await engine.store.drive(delete_topic(gone, False, now_ms()))
        await engine.moved({ids[gone]: 1})  # as the delete tells it
        while ids[gone] in serving.sources or ids[gone] in other.sources:
            await asyncio.sleep(0.005)
        other.stop()
        await engine.tasks[two]
        await engine.sweep()
        assert engine.by_topic == {ids[kept]: {serving}}

    serve(test)


def test_a_webhook_may_end_while_its_lease_is_renewed() -> None:
    topic = new_topic()
    one, two = hooked(topic), hooked(topic)

    async def test(engine: Engine) -> None:
        await engine.look()
        ending, kept = engine.serving[one], engine.serving[two]
        renew = engine.aside.drive

        async def drive(script: Script[Any]) -> Any:
            done = await renew(script)
            ending.stop()
            await engine.tasks[one]
            return done

        engine.aside.drive = drive  # type: ignore[method-assign]
        kept.lease_ends = before = kept.lease_ends - 1
        await engine.renew()
        assert list(engine.serving) == [two]
        assert kept.lease_ends > before

    serve(test)
