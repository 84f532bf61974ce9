"""PostgreSQL or Redis away: publishing answers 503, and what was acknowledged is delivered once they are back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
import trustme

from tests.instances import WHOLE, Instance, start, until
from tests.push.bus import call, new_client, new_topic, url
from tests.push.receiver import Receiver


@pytest.fixture
def shaky(settings_of_bus: dict[str, str]) -> Iterator[Instance]:
    """An instance whose servers may stand still. Nobody's after that: each web process finds out by itself that they are back."""
    with start(**WHOLE, **settings_of_bus, TOPICS_ANSWER_TIMEOUT_MS="1000") as instance:
        yield instance


@pytest.mark.guarantee("P1")
@pytest.mark.parametrize("server", ["redis-server", "postgres"])
def test_publishing_while_a_server_is_away(shaky: Instance, ca: trustme.CA, topic: str, server: str) -> None:
    instance, receiver = shaky, Receiver(ca)
    publisher, subscriber = new_client(instance), new_client(instance)
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    acknowledged: list[str] = []
    statuses: set[int] = set()

    def publish() -> int:
        n = len(acknowledged)
        status = publisher.call("POST", f"/topics/{topic}", {"type": "create", "url": url(n)}).status
        statuses.add(status)
        if status == 204:
            acknowledged.append(url(n))
        return status

    publish()
    pids = instance.pids(server)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: publish() == 503, "a refusal")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    until(lambda: publish() == 204, "publishing to go on")
    assert statuses == {204, 503}
    # What was refused for its answer alone may have been written, as for any client that gets no answer.
    until(lambda: set(acknowledged) <= set(receiver.acknowledged()), "all that was acknowledged")
    receiver.end()


def durability(instance: Instance, topic: str) -> str:
    reply = call(instance.port, "GET", f"/v0/topics/bus:{topic}", None)
    assert reply.status == 200, reply
    return str(reply.json["config"]["durability"])


@pytest.mark.guarantee("P1")
def test_an_event_that_was_acknowledged_with_fsync_survives_a_crash(
    instances: Callable[..., Instance], settings_of_bus: dict[str, str], ca: trustme.CA
) -> None:
    instance, receiver = instances(**WHOLE, **settings_of_bus, TOPICS_BUS_DURABILITY="fsync"), Receiver(ca)
    publisher, subscriber = new_client(instance), new_client(instance)
    topics = [new_topic() for _ in range(3)]
    unpublished, existing, fresh = topics
    assert call(instance.port, "PUT", f"/v0/topics/bus:{existing}", None, {"durability": "memory"}).status == 201
    publisher.publish(existing, url(0))
    publisher.publish(fresh, url(1))
    subscriber.subscribe(*topics, callback=receiver.url(), timeout=0, **{"from": "earliest"})
    assert durability(instance, unpublished) == "fsync"
    urls = [url(n) for n in range(30)]
    for n in range(2, 30):
        publisher.publish(topics[n % 3], url(n))
    assert [durability(instance, each) for each in topics] == ["fsync"] * 3
    instance.kill()
    instance.start()
    until(lambda: set(urls) <= set(receiver.acknowledged()), "every acknowledged event")
    receiver.end()


def test_without_the_setting_a_topic_keeps_its_durability(bus: Instance, topic: str) -> None:
    publisher, other = new_client(bus), new_topic()
    publisher.publish(topic, url(0))
    assert durability(bus, topic) == "disk"
    assert call(bus.port, "PUT", f"/v0/topics/bus:{other}", None, {"durability": "fsync"}).status == 201
    publisher.publish(other, url(0))
    assert durability(bus, other) == "fsync"
