"""The operators' actions in the admin: pause, resume, redeliver, test, drop, hand over; and the admin's pages."""

from __future__ import annotations

import re
import urllib.request
from datetime import UTC, datetime

import pytest

from tests.admin.pages import errors, rows, text
from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from tests.push.bus import Client, call, new_client, new_topic, until_acknowledged, url
from tests.push.desk import Desk
from tests.push.receiver import Receiver


@pytest.fixture
def path(desk: Desk, publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> str:
    """The pages of a subscriber that got five events."""
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, uuid="a-secret-name")
    for n in range(5):
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(5)])
    until(subscriber.drained, "the queue to be empty")
    return f"/admin/push/subscriber/{desk.subscriber(subscriber)}/"


def test_a_subscriber_is_shown_without_secrets(
    desk: Desk, path: str, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    name, state, health, queued, oldest, _, error = desk.row(subscriber)
    assert name.startswith(f"{subscriber.name}.")
    assert (state, health, queued, oldest, error) == ("well", "100", "0", "nothing", "-")
    page = desk.get(path + "change/")
    for shown in (topic, receiver.url(), "bus.queue:"):
        assert shown in page
    assert 'name="_save"' not in page  # there is nothing to save
    for secret in (subscriber.token, "a-secret-name"):
        assert secret not in page
    console = desk.get(path.replace("/push/", "/"))
    assert subscriber.token not in console
    assert "a-secret-name" not in console
    assert 'redeliver/?seq=1"' in console  # the log knows the seqs of each batch
    log = rows(desk.get(f"/admin/push/delivery/?q={subscriber.name}"))
    assert sum(int(row[5]) for row in log) == 5
    assert {tuple(row[2:4]) for row in log} == {("acknowledged", "200")}


def test_pausing_and_resuming(
    desk: Desk, path: str, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    chosen = {"_selected_action": str(desk.subscriber(subscriber))}
    assert "1 paused." in desk.post("/admin/push/subscriber/", action="pause", **chosen)
    publisher.publish(topic, url(5))
    assert desk.row(subscriber)[1:4] == ["paused", "100", "1"]
    assert "1 resumed." in desk.post("/admin/push/subscriber/", action="resume", **chosen)
    until_acknowledged(receiver, [url(n) for n in range(6)])


def test_redelivering_from_a_seq_or_a_time(desk: Desk, path: str, subscriber: Client, receiver: Receiver) -> None:
    assert errors(desk.post(path + "redeliver/")) == "Enter a seq or a time."
    assert errors(desk.post(path + "redeliver/", seq="1", time="2026-01-01 00:00")) == "Enter a seq or a time."
    assert "3 events" in text(desk.post(path + "redeliver/", seq="3"))
    assert subscriber.drained()  # the count alone sends nothing
    done = desk.post(path + "redeliver/", seq="3", confirmed="yes")
    assert "3 events will be delivered again, from seq 3 of the queue." in text(done)
    until_acknowledged(receiver, [url(n) for n in (0, 1, 2, 3, 4, 2, 3, 4)])
    until(subscriber.drained, "the queue to be empty")
    desk.post(path + "redeliver/", time="2026-01-01 00:00", confirmed="yes")
    until_acknowledged(receiver, [url(n) for n in (0, 1, 2, 3, 4, 2, 3, 4, 0, 1, 2, 3, 4)])
    until(subscriber.drained, "the queue to be empty")
    assert len({batch.id for batch in receiver.batches}) == len(receiver.batches)


def test_redelivering_never_skips_events(
    desk: Desk, path: str, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    receiver.answer = lambda handler, batch: 500
    for n in range(5, 8):
        publisher.publish(topic, url(n))
    until(lambda: desk.row(subscriber)[1] == "failing", "a failure")
    for wanted in ({"seq": "7"}, {"time": f"{datetime.now(UTC).year + 1}-01-01 00:00"}):
        for confirmed in ({}, {"confirmed": "yes"}):
            refused = errors(desk.post(path + "redeliver/", **wanted, **confirmed))
            assert "delivery has reached seq 5. To skip events, drop the queue" in refused
    receiver.answer = lambda handler, batch: 200
    until_acknowledged(receiver, [url(n) for n in range(8)])


def test_an_event_that_blocks_a_subscriber_is_skipped(
    desk: Desk, path: str, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    receiver.answer = lambda handler, batch: 500 if url(6) in [event["url"] for event in batch.events] else 200
    for n in range(5, 8):
        publisher.publish(topic, url(n))
    until(lambda: desk.row(subscriber)[1] == "failing", "a failure")
    first = desk.get(path + "skip/")
    assert url(6) in first
    assert "answered 500" in first
    batch = re.search(r'name="batch" value="([^"]+)"', first)
    assert batch
    known = {"batch": batch[1]}
    assert "The batch has the seqs" in errors(desk.post(path + "skip/", upto="99", **known))
    assert "look again" in errors(desk.post(path + "skip/", upto="6", batch="another"))
    last = re.search(r'name="upto" value="(\d+)"', first)
    assert last
    assert "Skipped" in text(desk.post(path + "skip/", upto=last[1], **known))
    publisher.publish(topic, url(8))
    until(subscriber.drained, "the queue to be empty")
    assert receiver.acknowledged()[-1] == url(8)
    assert url(6) not in receiver.acknowledged()
    assert "No batch waits" in desk.get(path + "skip/")


def test_a_test_event(desk: Desk, path: str, receiver: Receiver) -> None:
    assert "A test event is queued." in desk.post(path + "test/")
    until(lambda: receiver.batches[-1].events[0]["topic"] == "test", "the test event")
    event = receiver.batches[-1].events[-1]
    assert event["type"] == "noop"
    assert event["url"].startswith("https://test.invalid/")


def test_dropping_a_queue_after_a_look(
    desk: Desk, path: str, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    receiver.answer = lambda handler, batch: 500
    for n in range(5, 12):
        publisher.publish(topic, url(n))
    until(lambda: desk.row(subscriber)[1] == "failing", "a failure")
    assert "answered 500" in desk.row(subscriber)[-1]
    assert "7 events" in desk.get(path + "drop/")
    assert subscriber.events()["queued"] == 7
    assert "7 queued events will not be delivered." in desk.post(path + "drop/")
    assert subscriber.events()["queued"] == 0
    receiver.answer = lambda handler, batch: 200
    publisher.publish(topic, url(12))
    until_acknowledged(receiver, [url(n) for n in (0, 1, 2, 3, 4, 12)])


@pytest.mark.guarantee("P5")
def test_handing_a_topic_over(bus: Instance, desk: Desk, publisher: Client, topic: str) -> None:
    publisher.publish(topic, url(0))
    other = new_client(bus)
    page = f"/admin/push/bustopic/{topic}/change/"
    assert publisher.name in desk.get(f"/admin/push/bustopic/?q={topic}")
    desk.post(page, publisher=str(desk.subscriber(other)))
    for _ in range(10):  # whichever process is asked
        other.publish(topic, url(1))
        event = {"type": "create", "url": url(2)}
        assert call(bus.port, "POST", f"/topics/{topic}", publisher.token, event).status == 403


def test_a_user_who_may_only_look_changes_nothing(bus: Instance, path: str) -> None:
    for page in ("redeliver/", "skip/", "drop/", "test/"):
        with urllib.request.urlopen(bus.url + path + page, timeout=DEADLINE) as answer:
            assert "/admin/login/" in answer.url


@pytest.mark.parametrize("topics", [1, 2])
def test_a_queue_with_a_cap_evicts_and_cannot_be_made_to_reject(
    bus: Instance, publisher: Client, subscriber: Client, receiver: Receiver, topics: int
) -> None:
    names = [new_topic() for _ in range(topics)]
    for name in names:
        publisher.publish(name, url(0))
    receiver.answer = lambda handler, batch: 500
    subscriber.subscribe(*names, callback=receiver.url())
    with bus.connect() as connection:
        (queue,) = connection.execute(
            "SELECT queue FROM push_subscriber s JOIN push_busclient c ON c.id = s.client_id WHERE c.name = %s",
            [subscriber.name],
        ).fetchone()  # type: ignore[misc]
    refused = call(bus.port, "PUT", f"/v0/topics/{queue}", None, {"cap_records": 2, "discard": "reject"})
    assert refused.status == 400
    assert refused.json["error"]["detail"] == {"field": "discard"}
    assert "which evicts the oldest events" in refused.json["error"]["message"]
    assert call(bus.port, "PUT", f"/v0/topics/{queue}x", None, {"discard": "reject"}).status == 400
    sealed = call(bus.port, "PUT", f"/v0/topics/{queue}", None, {"sealed": True})
    assert (sealed.status, sealed.json["error"]["detail"]) == (400, {"field": "sealed"})
    assert call(bus.port, "PUT", f"/v0/topics/{queue}", None, {"cap_records": 2}).status == 200
    for n in range(1, 6):
        publisher.publish(names[n % topics], url(n))
    until(lambda: subscriber.events()["queued"] == 2, "the cap to be kept")
    receiver.answer = lambda handler, batch: 200
    until(subscriber.drained, "what is left to be delivered")
    assert receiver.acknowledged()[-2:] == [url(4), url(5)]
