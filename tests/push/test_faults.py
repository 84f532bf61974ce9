"""PostgreSQL or Redis away: publishing answers 503, and what was acknowledged is delivered once they are back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import trustme

from tests.instances import WHOLE, Instance, start, until
from tests.push.bus import new_client, url
from tests.push.receiver import Receiver


@pytest.fixture
def shaky(settings_of_bus: dict[str, str]) -> Iterator[Instance]:
    """An instance whose servers may stand still. Nobody's after that: each web process finds out by itself that they are back."""
    with start(**WHOLE, **settings_of_bus, TOPICS_ANSWER_TIMEOUT_MS="1000") as instance:
        yield instance


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
