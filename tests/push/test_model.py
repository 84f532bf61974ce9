"""Random publishing, subscribing, unsubscribing, deleting, failing and healing, against a model: what a subscriber gets is what
was published to what it was subscribed to at that time, in that order, each event once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.instances import Instance, until
from tests.push.bus import Client, new_client, new_topic, until_acknowledged, url
from tests.push.receiver import Batch, Handler, Receiver

TOPICS, SUBSCRIBERS = 3, 2
topic = st.integers(0, TOPICS - 1)
who = st.integers(0, SUBSCRIBERS - 1)
some_topics = st.lists(topic, unique=True)
OPERATIONS = st.one_of(
    st.tuples(st.just("publish"), topic),
    st.tuples(st.just("publish"), topic),
    st.tuples(st.just("publish"), topic),
    st.tuples(st.just("subscribe"), who, some_topics, st.sampled_from([0, 50]), st.integers(1, 4)),
    st.tuples(st.just("unsubscribe"), who, topic),
    st.tuples(st.just("unsubscribe_all"), who),
    st.tuples(st.just("delete"), topic),
    st.tuples(st.just("fail"), who, st.sampled_from([500, 302, None])),
    st.tuples(st.just("heal"), who),
)


@dataclass
class Subscriber:
    """A client, and what the model says that it gets. `trouble`: what its callback answers meanwhile (None: a reset)."""

    client: Client
    path: str
    topics: set[int] | None = None
    expected: list[str] = field(default_factory=list)
    failing: bool = False
    trouble: int | None = None


class World:
    """The bus and the model of it, side by side: each operation is done to both, and their answers agree."""

    def __init__(self, instance: Instance, ca: trustme.CA) -> None:
        self.receiver = Receiver(ca, answer=self.answer)
        self.publisher = new_client(instance)
        self.names = [new_topic() for _ in range(TOPICS)]
        self.there: set[int] = set()  # topics that were published to
        self.expected: set[int] = set()  # topics that were subscribed to before
        self.subscribers = [Subscriber(new_client(instance), f"/{n}") for n in range(SUBSCRIBERS)]
        self.published = 0

    def answer(self, handler: Handler, batch: Batch) -> int | None:
        subscriber = self.subscribers[int(batch.path[1:])]
        if not subscriber.failing:
            return 200
        if subscriber.trouble is None:
            handler.reset()
        return subscriber.trouble

    def publish(self, topic: int) -> None:
        self.publisher.publish(self.names[topic], url(self.published))
        for subscriber in self.subscribers:
            if topic in (subscriber.topics or ()):
                subscriber.expected.append(url(self.published))
        self.there.add(topic)
        self.expected.discard(topic)
        self.published += 1

    def subscribe(self, who: int, topics: list[int], timeout: int, most: int) -> None:
        subscriber = self.subscribers[who]
        names = [self.names[topic] for topic in topics]
        callback = self.receiver.url(subscriber.path)
        body = {"topics": names, "callback": callback, "timeout": timeout, "max": most}
        assert subscriber.client.call("POST", "/subscription", body).status == 204
        subscriber.topics = set(topics)
        self.expected |= set(topics) - self.there

    def unsubscribe(self, who: int, topic: int) -> None:
        subscriber = self.subscribers[who]
        subscribed = topic in (subscriber.topics or ())
        path = f"/subscriber/topics/{self.names[topic]}"
        assert subscriber.client.call("DELETE", path).status == (204 if subscribed else 404)
        if subscribed and subscriber.topics is not None:
            subscriber.topics.discard(topic)

    def unsubscribe_all(self, who: int) -> None:
        subscriber = self.subscribers[who]
        expected = 404 if subscriber.topics is None else 204
        assert subscriber.client.call("DELETE", "/subscriber").status == expected
        subscriber.topics = None

    def delete(self, topic: int) -> None:
        expected = 204 if topic in self.there else 403 if topic in self.expected else 404
        assert self.publisher.call("DELETE", f"/topics/{self.names[topic]}").status == expected
        if expected != 204:
            return
        self.there.discard(topic)
        for subscriber in self.subscribers:
            if subscriber.topics is not None:
                subscriber.topics.discard(topic)

    def fail(self, who: int, trouble: int | None) -> None:
        self.subscribers[who].failing, self.subscribers[who].trouble = True, trouble

    def heal(self, who: int) -> None:
        self.subscribers[who].failing = False

    def check(self) -> None:
        for subscriber in self.subscribers:
            subscriber.failing = False
        for subscriber in self.subscribers:
            until_acknowledged(self.receiver, subscriber.expected, subscriber.path)
            until(subscriber.client.drained, "the queue to be empty")
            assert self.receiver.acknowledged(subscriber.path) == subscriber.expected
            listed = subscriber.client.subscription()
            if subscriber.topics is None:
                assert listed is None
            else:
                assert listed is not None
                assert listed["topics"] == sorted(self.names[topic] for topic in subscriber.topics)
                assert listed["events"] == {"sent": len(subscriber.expected), "queued": 0, "oldest": None}


@pytest.mark.guarantee("P1", "P2")
@given(operations=st.lists(OPERATIONS, min_size=10, max_size=60))
@settings(max_examples=examples(4))
def test_the_bus_does_what_the_model_says(bus: Instance, ca: trustme.CA, operations: list[tuple[Any, ...]]) -> None:
    world = World(bus, ca)
    try:
        for name, *arguments in operations:
            getattr(world, name)(*arguments)
        world.check()
    finally:
        world.receiver.end()
