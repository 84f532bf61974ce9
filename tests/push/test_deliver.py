"""Events reach their callbacks: in batches, in order, over TLS."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable

import pytest

from tests.instances import WHOLE, Instance, until
from tests.push.bus import Client, new_client, new_topic, until_acknowledged, url
from tests.push.receiver import Batch, Handler, Receiver, early_hints, hang, reset


def test_it_delivers(publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), uuid="hello", timeout=0)
    before = int(time.time() * 1000)
    publisher.publish(topic, url(1), data={"a": [1, None]})
    publisher.publish(topic, url(2), "delete", timestamp=17, data=None)
    until_acknowledged(receiver, [url(1), url(2)])
    first, second = [event for batch in receiver.batches for event in batch.events]
    assert before <= first.pop("t") <= int(time.time() * 1000)
    assert first == {"topic": topic, "type": "create", "url": url(1), "data": {"a": [1, None]}}
    assert second == {"topic": topic, "type": "delete", "url": url(2), "t": 17}
    batch = receiver.batches[0]
    assert batch.username == "hello"
    assert batch.headers["content-type"] == "application/json"
    assert batch.attempt == 1
    until(subscriber.drained, "the queue to be empty")
    assert subscriber.events() == {"sent": 2, "queued": 0, "oldest": None}


def test_early_hints_are_not_the_answer(publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> None:
    receiver.answer = early_hints
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=1)
    wanted = [url(n) for n in range(1, 4)]
    for each in wanted:
        publisher.publish(topic, each)
    until_acknowledged(receiver, wanted)
    until(subscriber.drained, "the queue to be empty")
    assert [(event["url"], batch.attempt) for batch in receiver.batches for event in batch.events] == [
        (each, 1) for each in wanted
    ]
    assert subscriber.events() == {"sent": 3, "queued": 0, "oldest": None}


@pytest.mark.parametrize(
    ("said", "sent"),
    [("billing", "billing:x"), ("billing:s3", "billing:s3"), ("us%40er:p%2Fw%25", "us@er:p/w%"), ("ü:%C3%A9", "ü:é")],
)
def test_a_callback_says_who_calls_it(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver, said: str, sent: str
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(
        topic, callback=receiver.url().replace("://", f"://{said}@"), uuid=None, timeout=0, **{"from": "earliest"}
    )
    until_acknowledged(receiver, [url(0)])
    assert receiver.batches[0].headers["authorization"] == f"Basic {b64encode(sent.encode()).decode()}"


@pytest.mark.guarantee("P2")
def test_events_of_several_topics_come_in_the_order_of_publishing(
    client: Callable[[], Client], subscriber: Client, receiver: Receiver
) -> None:
    publishers = [(client(), new_topic()) for _ in range(3)]
    for publisher, topic in publishers:
        publisher.publish(topic, url(0))
    subscriber.subscribe(*(topic for _, topic in publishers), callback=receiver.url(), timeout=0, max=7)
    for n in range(60):
        publisher, topic = publishers[n * 7 % 3]
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(60)])


def test_a_batch_leaves_when_it_is_full(publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=3_600_000, max=3)
    for n in range(8):
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(6)])
    assert [len(batch.events) for batch in receiver.batches] == [3, 3]
    until(lambda: subscriber.events()["queued"] == 2, "the second batch to be acknowledged")
    assert abs(subscriber.events()["oldest"] - time.time()) < 60


def test_a_full_batch_of_several_topics_leaves_long_before_its_timeout(
    client: Callable[[], Client], subscriber: Client, receiver: Receiver
) -> None:
    publishers = [(client(), new_topic()) for _ in range(2)]
    for publisher, topic in publishers:
        publisher.publish(topic, url(0))
    subscriber.subscribe(*(topic for _, topic in publishers), callback=receiver.url(), timeout=3_600_000, max=10)
    for n in range(25):
        publisher, topic = publishers[n % 2]
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(20)])
    assert [len(batch.events) for batch in receiver.batches] == [10, 10]


def redirect(handler: Handler, batch: Batch) -> None:
    batch.status = 302
    handler.send_response(302)
    handler.send_header("Location", "/elsewhere")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def drip(handler: Handler, batch: Batch) -> None:
    """A byte of a header every now and then: each of them in time, the whole never."""
    handler.close_connection = True
    try:
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200:
            handler.connection.sendall(bytes([byte]))
            time.sleep(0.1)
    except OSError:
        pass


@pytest.mark.guarantee("P1", "P9")
@pytest.mark.parametrize(
    "trouble",
    [lambda handler, batch: 500, lambda handler, batch: 201, redirect, reset, hang(3), drip],
    ids=["500", "201", "redirect", "reset", "hang", "drip"],
)
def test_what_failed_comes_again_as_it_was(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver, trouble
) -> None:
    receiver.answer = lambda handler, batch: trouble(handler, batch) if len(receiver.batches) <= 2 else 204
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=4)
    for n in range(10):
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(10)])
    first, second, third = receiver.batches[:3]
    assert first.events == second.events == third.events
    assert first.id == second.id == third.id
    assert [each.attempt for each in (first, second, third)] == [1, 2, 3]
    assert receiver.of("/elsewhere") == []
    assert len({batch.id for batch in receiver.batches[2:]}) == len(receiver.batches) - 2


def test_a_subscriber_that_comes_back_gets_everything_in_order(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=5)
    receiver.end()
    for n in range(12):
        publisher.publish(topic, url(n))
    assert subscriber.events()["queued"] == 12
    receiver.begin()
    until_acknowledged(receiver, [url(n) for n in range(12)])


@pytest.mark.guarantee("P8")
def test_one_that_hangs_holds_up_nobody_else(
    bus: Instance, publisher: Client, client: Callable[[], Client], topic: str, receiver: Receiver
) -> None:
    publisher.publish(topic, url(0))
    still = hang(60)
    receiver.answer = lambda handler, batch: still(handler, batch) if batch.path.startswith("/hang") else 200
    for n in range(20):
        client().subscribe(topic, callback=receiver.url(f"/hang{n}"), timeout=0)
    quick = [client() for _ in range(5)]
    for n, subscriber in enumerate(quick):
        subscriber.subscribe(topic, callback=receiver.url(f"/quick{n}"), timeout=0)
    for n in range(5):
        publisher.publish(topic, url(n))
    for n in range(5):
        until_acknowledged(receiver, [url(n) for n in range(5)], f"/quick{n}")
    assert {batch.status for batch in receiver.batches if batch.path.startswith("/hang")} == {None}


def test_connections_are_kept(publisher: Client, subscriber: Client, topic: str, receiver: Receiver) -> None:
    peers = []

    def answer(handler: Handler, batch: Batch) -> int:
        peers.append(handler.client_address)
        return 200

    receiver.answer = answer
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=1)
    for n in range(5):
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(5)])
    assert len(set(peers)) == 1


def test_a_kept_connection_that_was_closed_is_no_failure(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    def answer(handler: Handler, batch: Batch) -> int:
        handler.close_connection = True  # without saying so
        return 200

    receiver.answer = answer
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=1)
    for n in range(5):
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(5)])
    assert {batch.attempt for batch in receiver.batches} == {1}


def trickle(handler: Handler, batch: Batch, seconds: float = 0.4) -> None:
    """200 at once, and a byte of its body after each so many seconds."""
    batch.status = 200
    handler.close_connection = True
    try:
        handler.connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:  # the size of a chunk, which is not to end
            handler.connection.sendall(b"0")
            time.sleep(seconds)
    except OSError:
        pass


def state_of(instance: Instance, who: Client) -> tuple[int, str | None]:
    with instance.connect() as connection:
        found = connection.execute(
            "SELECT health, last_error FROM push_subscriber s JOIN push_busclient c ON c.id = s.client_id WHERE c.token = %s",
            [who.token],
        ).fetchone()
    assert found is not None
    return found[0], found[1]


def test_a_body_that_trickles_is_not_waited_for_and_counts_as_failing(
    bus: Instance, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    receiver.answer = lambda handler, batch: trickle(handler, batch) if len(receiver.batches) <= 3 else 200
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=1)
    for n in range(3):
        publisher.publish(topic, url(n))
    until(subscriber.drained, "the queue to be empty")
    assert receiver.acknowledged() == [url(n) for n in range(3)]
    assert {batch.attempt for batch in receiver.batches} == {1}
    health, error = state_of(bus, subscriber)
    assert health == 94
    assert "no complete body" in (error or "")
    publisher.publish(topic, url(3))
    until_acknowledged(receiver, [url(n) for n in range(4)])
    until(lambda: state_of(bus, subscriber) == (95, None), "it to be well")


@pytest.mark.guarantee("P8")
def test_bodies_that_trickle_hold_up_nobody(
    instances: Callable[..., Instance], settings_of_bus: dict[str, str], topic: str, receiver: Receiver
) -> None:
    """There are more of them than threads, and each would be waited for longer than the test waits."""
    instance = instances(**{**WHOLE, **settings_of_bus, "ROUTEMASTER_TIMEOUT": "300"})
    publisher, healthy = new_client(instance), new_client(instance)
    # Seldom, because 140 such bodies would be work for the receiver, and no byte is late before ROUTEMASTER_TIMEOUT.
    receiver.answer = lambda handler, batch: trickle(handler, batch, 10) if batch.path.startswith("/slow") else 200
    publisher.publish(topic, url(0))
    for n in range(140):
        new_client(instance).subscribe(topic, callback=receiver.url(f"/slow{n}"), timeout=0)
    healthy.subscribe(topic, callback=receiver.url("/healthy"), timeout=0)
    for n in range(3):
        publisher.publish(topic, url(n))
        until_acknowledged(receiver, [url(n) for n in range(n + 1)], "/healthy")


def test_an_acknowledgement_that_takes_long_counts_and_counts_as_failing(
    instances: Callable[..., Instance], settings_of_bus: dict[str, str], topic: str, receiver: Receiver
) -> None:
    instance = instances(**{**WHOLE, **settings_of_bus, "PUSH_SLOW_MS": "1"})
    publisher, subscriber = new_client(instance), new_client(instance)

    def answer(handler: Handler, batch: Batch) -> int:
        time.sleep(0.01)
        return 204

    receiver.answer = answer
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=1)
    for n in range(4):
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(4)])
    until(subscriber.drained, "the queue to be empty")
    health, error = state_of(instance, subscriber)
    assert health == 92
    assert "later than PUSH_SLOW_MS" in (error or "")


def test_a_body_that_comes_with_its_status_keeps_the_connection(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    peers = []

    def answer(handler: Handler, batch: Batch) -> None:
        peers.append(handler.client_address)
        batch.status = 200
        handler.connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        handler.connection.sendall(b"2\r\nOK\r\n0\r\n\r\n")

    receiver.answer = answer
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=1)
    for n in range(5):
        publisher.publish(topic, url(n))
    until_acknowledged(receiver, [url(n) for n in range(5)])
    assert len(set(peers)) == 1
