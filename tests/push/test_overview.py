"""The overview of an operator whose subscriber gets no events: what waits, since when, why, and one link to act."""

from __future__ import annotations

import re

import pytest

from tests.admin.pages import text
from tests.instances import Instance, free_port, until
from tests.push.bus import Client, url
from tests.push.desk import Desk
from tests.push.receiver import Receiver

# The first of its folder: others leave subscribers in trouble, and the overview names only some.
pytestmark = pytest.mark.deep(1)


def problem(desk: Desk, subscriber: Client) -> tuple[str, str] | None:
    """What the overview says of a subscriber, and the link."""
    for found in re.findall(r'<div class="need (?:bad|warn).*?</div>', desk.get("/admin/"), re.DOTALL):
        if subscriber.name in found:
            return " ".join(text(found).split()), re.findall(r'href="([^"]+)"', found)[-1]
    return None


def test_an_endpoint_that_does_not_answer(
    bus: Instance, desk: Desk, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=f"https://127.0.0.1:{free_port()}/", timeout=0)
    assert problem(desk, subscriber) is None
    publisher.publish(topic, url(1))
    publisher.publish(topic, url(2))

    def told() -> tuple[str, str] | None:
        found = problem(desk, subscriber)
        return found if found and "2 events wait." in found[0] else None

    said, link = until(told, "the overview to name the subscriber")
    assert said.startswith(f"Subscriber {subscriber.name} gets no events.")
    assert re.search(r"attempts? failed, the last one with: .*onnect.*\. Its health is \d+ of 100\. Since .* ago", said)
    assert "health" in desk.get(link)
    log = (bus.data / "logs" / "push.log").read_text()
    assert re.search(rf"events to subscriber {subscriber.name}\.\d+ failed", log)
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    until(lambda: problem(desk, subscriber) is None, "the overview to be well again")


def test_a_paused_subscriber_is_named_while_events_wait(
    desk: Desk, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    desk.post("/admin/push/subscriber/", action="pause", _selected_action=str(desk.subscriber(subscriber)))
    assert problem(desk, subscriber) is None
    publisher.publish(topic, url(1))
    said, _ = until(lambda: problem(desk, subscriber), "the overview to name the subscriber")
    assert "gets no events. 1 event waits. An operator paused it." in said
