"""Deliveries make room for publishers, and still go on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

import pytest
import redis

from base.clock import now_ms
from push.bus import clients, publish, subscriptions
from push.bus.names import bus_topic
from push.delivery import running
from push.delivery.throttle import AT_ONCE, Throttle
from routers.tasks import HELD, advance_source, flag, request_advance
from store.loop import Loop
from store.script import Pause, Script, run
from tests.instances import until
from tests.push.bus import new_topic, url
from tests.push.receiver import Receiver
from topics.models import TopicHead


class Question(Pause):
    """What a delivery asks, answered when the test says so. `under_way`: how many are being asked."""

    under_way = 0

    def __init__(self) -> None:
        self.begun, self.answered = asyncio.Event(), asyncio.Event()

    async def over(self) -> None:
        Question.under_way += 1
        self.begun.set()
        await self.answered.wait()
        Question.under_way -= 1

    def script(self) -> Script[None]:
        yield self


def test_a_delivery_that_waits_for_a_turn_sees_that_a_flood_has_begun() -> None:
    async def ask_before_and_in_a_flood() -> None:
        throttle = Throttle(Loop())
        questions = [Question() for _ in range(AT_ONCE + 3)]
        asking = [asyncio.create_task(throttle.ask(each.script())) for each in questions]
        async with asyncio.timeout(10):
            await questions[AT_ONCE - 1].begun.wait()
            assert Question.under_way == AT_ONCE
            throttle.dense_until = math.inf
            for each in questions[:AT_ONCE]:
                each.answered.set()
            for each in questions[AT_ONCE:]:
                await each.begun.wait()
                assert Question.under_way == 1
                each.answered.set()
            await asyncio.gather(*asking)

    asyncio.run(ask_before_and_in_a_flood())


@pytest.fixture
def plain_receiver() -> Iterator[Receiver]:
    made = Receiver(None)
    yield made
    made.end()


def test_in_a_flood_events_arrive_and_workers_of_routers_leave_them_to_the_dispatcher(
    transactional_db: None, settings, plain_receiver: Receiver
) -> None:
    settings.PUSH_CALLBACK_LOOPBACK_HTTP = True
    topic, now = new_topic(), now_ms()
    publisher, subscriber = (run(clients.add_client(name, None, now)) for name in ("publisher", "subscriber"))

    def publish_event(n: int) -> None:
        run(publish.publish(topic, publish.Event("create", url(n)), publisher.id, now_ms()))

    publish_event(0)
    wanted = subscriptions.Wanted([topic], plain_receiver.url(), timeout=0)
    run(subscriptions.subscribe(subscriber.id, subscriber.name, wanted, now))
    source_id = TopicHead.objects.get(topic__name=bus_topic(topic)).topic_id
    worker = running.Running()
    try:
        worker.dispatcher.throttle.dense_until = math.inf
        until(lambda: worker.dispatcher.heads, "the first look: before it, what is overdue is the sweep's to find")
        for n in range(1, 11):
            publish_event(n)
            until(lambda n=n: len(plain_receiver.acknowledged()) >= n, "the event")  # type: ignore[misc]
        assert plain_receiver.acknowledged() == [url(n) for n in range(1, 11)]
    finally:
        worker.stop()
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        assert client.get(flag(source_id)) == HELD
        assert request_advance(client, [source_id]) == {source_id}
        publish_event(11)
        queue = TopicHead.objects.get(topic__name__startswith="bus.queue:")
        advance_source(source_id)
        queue.refresh_from_db()
        assert queue.head_seq == 10
        client.delete(flag(source_id))  # as by itself, a while after the flood
        advance_source(source_id)
        queue.refresh_from_db()
        assert queue.head_seq == 11
