"""`from`: a new subscription may begin with what was published before it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.instances import until
from tests.push.bus import Client, new_topic, until_acknowledged, url
from tests.push.receiver import Receiver


def test_only_what_comes_after_the_subscription(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    publisher.publish(topic, url(1))
    until_acknowledged(receiver, [url(1)])


def test_from_the_earliest_over_several_topics(publisher: Client, subscriber: Client, receiver: Receiver) -> None:
    topics = [new_topic() for _ in range(3)]
    for n in range(30):
        publisher.publish(topics[n % 3], url(n))
    subscriber.subscribe(*topics, callback=receiver.url(), timeout=0, **{"from": "earliest"})
    until_acknowledged(receiver, [url(n) for n in range(30)])


def test_from_a_seq(publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> None:
    for n in range(5):
        publisher.publish(topic, url(n))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, **{"from": 3})
    until_acknowledged(receiver, [url(3), url(4)])


def test_from_a_time(publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> None:
    publisher.publish(topic, url(0))
    began = time.time()
    until(lambda: time.time() > began + 0.01, "the clock to move on")
    moment = datetime.now(UTC)
    publisher.publish(topic, url(1))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, **{"from": moment.isoformat()})
    until_acknowledged(receiver, [url(1)])


def test_a_topic_that_is_subscribed_to_goes_on_where_it_was(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    publisher.publish(topic, url(1))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, **{"from": "earliest"})
    publisher.publish(topic, url(2))
    until_acknowledged(receiver, [url(1), url(2)])
