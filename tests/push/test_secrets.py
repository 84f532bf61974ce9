"""A uuid, or the credentials in a callback's URL, are a secret of the subscriber and its receiver."""

from __future__ import annotations

import re

import pytest

from tests.instances import Instance, until
from tests.push.bus import Client, url
from tests.push.desk import Desk
from tests.push.receiver import Receiver

SECRET, OTHER = "hush-hush-7f3a", "other-secret-9c1d"


def with_credentials(callback: str, secret: str = SECRET) -> str:
    return callback.replace("://", f"://{secret}:pass-{secret}@")


@pytest.fixture
def subscribed(publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> str:
    """The callback, of a subscriber whose delivery has failed and then succeeded, and that has changed its credentials."""
    receiver.answer = lambda handler, batch: 500
    publisher.publish(topic, url(0))
    callback = with_credentials(receiver.url())
    subscriber.subscribe(topic, callback=callback, uuid=None, timeout=0)
    publisher.publish(topic, url(1))
    until(lambda: receiver.batches, "an attempt")
    receiver.answer = lambda handler, batch: 200
    until(lambda: receiver.acknowledged() == [url(1)], "the event")
    assert {batch.username for batch in receiver.batches} == {SECRET}
    subscriber.subscribe(topic, callback=with_credentials(receiver.url(), OTHER), uuid=None, timeout=0)
    return callback


@pytest.mark.guarantee("P7")
def test_no_client_sees_the_credentials_of_a_callback(
    subscribed: str, subscriber: Client, publisher: Client, root: Client, receiver: Receiver
) -> None:
    for who in (subscriber, publisher, root):
        for path in ("/subscriptions", "/subscribers", "/topics"):
            shown = who.call("GET", path).text
            assert SECRET not in shown
            assert OTHER not in shown
    assert (subscriber.subscription() or {})["callback"] == receiver.url().replace("://", "://***@")


@pytest.mark.guarantee("P7")
def test_no_page_and_no_audit_entry_holds_the_credentials_of_a_callback(
    bus: Instance, subscribed: str, subscriber: Client, desk: Desk, receiver: Receiver
) -> None:
    id = desk.subscriber(subscriber)
    pages = [
        f"/admin/push/subscriber/{id}/{page}" for page in ("change/", "history/", "redeliver/", "drop/", "test/")
    ] + [f"/admin/push/subscriber/?q={subscriber.name}", f"/admin/push/delivery/?q={subscriber.name}"]
    pages.append(f"/admin/topics/auditentry/?q=subscriber bus.queue:{subscriber.name}".replace(" ", "%20"))
    for path in pages:
        page = desk.get(path)
        assert SECRET not in page
        assert OTHER not in page
    assert "***@localhost" in desk.get(pages[0])
    with bus.connect() as connection:
        entries = connection.execute(
            "SELECT before::text, after::text FROM topics_auditentry WHERE name ^@ %s ORDER BY id",
            [f"subscriber bus.queue:{subscriber.name}."],
        ).fetchall()
    assert len(entries) == 2
    assert SECRET not in str(entries)
    assert OTHER not in str(entries)
    assert f"{receiver.url().replace('://', '://***@')} (other credentials)" in entries[1][1]


@pytest.mark.guarantee("P7")
def test_no_log_and_no_metric_holds_the_credentials_of_a_callback(bus: Instance, subscribed: str) -> None:
    files = [path for path in (bus.data / "logs").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert SECRET not in path.read_text(errors="replace"), path
    with bus.connect() as connection:
        for table in ("push_delivery", "push_counter", "django_admin_log"):
            assert SECRET not in str(connection.execute(f"SELECT * FROM {table}").fetchall())


@pytest.mark.parametrize(
    "callback",
    [
        "https://a:b\\c@callback.example/",
        "https://127.0.0.1\\@callback.example/",
        "https://a:b@c%zz/",
        "https://***@callback.example/",
    ],
)
def test_a_callback_that_cannot_be_called_as_it_reads_is_refused(subscriber: Client, callback: str) -> None:
    refused = subscriber.call("POST", "/subscription", {"topics": [], "callback": callback})
    assert refused.status == 400
    assert not re.search(r"a:b|127\.0\.0\.1", refused.text)
    assert subscriber.subscription() is None


def test_a_uuid_is_shown_to_its_client_and_to_the_root_key(
    publisher: Client, subscriber: Client, root: Client, topic: str, receiver: Receiver
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), uuid=SECRET)
    for who, seen in ((subscriber, SECRET), (root, SECRET), (publisher, None)):
        for path in ("/subscriptions", "/subscribers"):
            (found,) = [each for each in who.call("GET", path).json if each["subscriber"] == subscriber.name]
            assert found["uuid"] == seen
    subscriber.subscribe(topic, callback=receiver.url(), uuid=None)
    assert (subscriber.subscription() or {})["uuid"] is None
