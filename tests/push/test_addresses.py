"""Callbacks reach only allowed addresses, and the server does not trust their answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trustme

from base.errors import InvalidRequest
from push.bus.subscriptions import check_callback
from push.delivery import addresses
from push.delivery.addresses import AddressRefused
from tests.instances import Instance, until
from tests.push.bus import ROOT, Client, new_client, url
from tests.push.receiver import Batch, Handler, Receiver


@pytest.mark.guarantee("P9")
@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::",
        "64:ff9b:1:0:a9:fea9:fe00:0",
        "2001:0:a9fe:a9fe::1",
        "2001:0:808:808:0:0:5601:5601",
        "fe81::1",
        "2001:db8::5efe:169.254.169.254",
        "2001:db8::200:5efe:169.254.169.254",
        "0.0.0.0",
        "::",
        "100.100.100.200",
    ],
)
def test_what_nobody_may_have_us_call(address: str) -> None:
    with pytest.raises(AddressRefused):
        addresses.check(address, loopback_only=False)


@pytest.mark.parametrize(
    "address",
    ["::1", "127.0.0.1", "2001:db8::1", "64:ff9b::808:808", "64:ff9b:1::808:808", "2001:0:808:808::1", "::8.8.8.8"],
)
def test_what_is_not_on_the_list_may_be_called(address: str) -> None:
    addresses.check(address, loopback_only=False)


@pytest.mark.parametrize("address", ["::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"])
def test_what_a_gateway_may_take_for_this_machine_is_not_this_machine(address: str) -> None:
    with pytest.raises(AddressRefused):
        addresses.check(address, loopback_only=True)


@pytest.mark.parametrize("host", ["callback.example", "10.0.0.1", "[2001:db8::1]", "127.0.0.1.example"])
def test_a_callback_in_the_clear_to_another_machine_is_no_subscription(host: str, settings: Any) -> None:
    settings.PUSH_CALLBACK_LOOPBACK_HTTP = True
    with pytest.raises(InvalidRequest, match="https"):
        check_callback(f"http://{host}/events")


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "127.9.9.9:81", "[::1]:8080"])
def test_this_machine_may_be_called_in_the_clear_when_that_is_said(host: str, settings: Any) -> None:
    settings.PUSH_CALLBACK_LOOPBACK_HTTP = True
    check_callback(f"http://{host}/events")
    settings.PUSH_CALLBACK_LOOPBACK_HTTP = False
    with pytest.raises(InvalidRequest, match="https"):
        check_callback(f"http://{host}/events")


@pytest.mark.parametrize("address", ["192.0.2.1", "10.0.0.1", "2001:db8::1"])
def test_http_is_for_this_machine(address: str) -> None:
    addresses.check(address, loopback_only=False)
    with pytest.raises(AddressRefused):
        addresses.check(address, loopback_only=True)
    for own in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        addresses.check(own, loopback_only=True)


def failed(instance: Instance, who: Client, error: str) -> Callable[[], bool]:
    """Whether the log says so of a delivery."""

    def look() -> bool:
        with instance.connect() as connection:
            found = connection.execute(
                "SELECT error FROM push_delivery JOIN push_busclient c ON c.id = subscriber_id WHERE c.token = %s",
                [who.token],
            ).fetchall()
        return any(error in (each or "") for (each,) in found)

    return look


@pytest.mark.guarantee("P9")
def test_a_denied_address_is_never_connected_to(strict: Instance, topic: str) -> None:
    publisher, subscriber = new_client(strict), new_client(strict)
    listener = socket.create_server(("127.0.0.2", 0))
    came: list[tuple[socket.socket, object]] = []
    threading.Thread(target=lambda: came.append(listener.accept()), daemon=True).start()
    publisher.publish(topic, url(0))
    callback = f"https://127.0.0.2:{listener.getsockname()[1]}/"
    subscriber.subscribe(topic, callback=callback, timeout=0)
    publisher.publish(topic, url(1))
    until(failed(strict, subscriber, "PUSH_CALLBACK_DENY"), "the refusal in the log")
    assert came == []
    socket.create_connection(listener.getsockname()).close()  # so that the thread ends
    until(lambda: came, "it to end")
    came[0][0].close()
    listener.close()


def test_a_callback_in_the_clear_to_this_machine(strict: Instance, bus: Instance, topic: str) -> None:
    receiver = Receiver(None)
    publisher, subscriber = new_client(strict), new_client(strict)
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    publisher.publish(topic, url(1))
    until(lambda: receiver.acknowledged() == [url(1)], "the event")
    receiver.end()
    elsewhere = new_client(bus)
    reply = elsewhere.call("POST", "/subscription", {"topics": [], "callback": receiver.url()})
    assert reply.status == 400


def test_a_certificate_of_somebody_else_is_refused(
    bus: Instance, publisher: Client, subscriber: Client, topic: str
) -> None:
    stranger = Receiver(trustme.CA())
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=stranger.url(), timeout=0)
    publisher.publish(topic, url(1))
    until(failed(bus, subscriber, "CERTIFICATE_VERIFY_FAILED"), "the refusal in the log")
    assert stranger.batches == []
    stranger.end()


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("a..b", "a..b is not a valid host name"),
        (f"{'a' * 64}.example", "is not a valid host name"),
    ],
)
def test_a_host_that_is_none_is_a_failed_delivery(
    bus: Instance, publisher: Client, subscriber: Client, topic: str, host: str, error: str
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=f"https://{host}/events", timeout=0)
    publisher.publish(topic, url(1))
    until(failed(bus, subscriber, error), "the reason in the log")


def test_a_long_answer_is_read_to_a_bound(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    sent: list[int] = []

    def answer(handler: Handler, batch: Batch) -> None:
        batch.status = 200
        handler.close_connection = True
        handler.send_response(200)
        handler.end_headers()  # without a length: it goes on and on
        try:
            for _ in range(100_000):
                sent.append(handler.connection.send(b"x" * 65536))
        except OSError:
            pass

    receiver.answer = answer
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0, max=1)
    for n in range(3):
        publisher.publish(topic, url(n))
    until(lambda: receiver.acknowledged() == [url(0), url(1), url(2)], "all events, each once")
    assert sum(sent) < 100 * 2**20  # what the kernel took before it was told


def test_tokens_and_uuids_are_in_no_log(bus: Instance, publisher: Client, subscriber: Client, topic: str) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback="https://localhost:1/", uuid="a-secret-of-the-subscriber", timeout=0)
    publisher.publish(topic, url(1))
    until(failed(bus, subscriber, "refused"), "a failure in the log")
    written = "".join(path.read_text(errors="replace") for path in (bus.data / "logs").glob("*.log"))
    for secret in (publisher.token, subscriber.token, ROOT, "a-secret-of-the-subscriber"):
        assert secret not in written
    with bus.connect() as connection:
        names = connection.execute("SELECT string_agg(name, ' ') FROM topics_topic").fetchone()
        audit = connection.execute("SELECT string_agg(a::text, ' ') FROM topics_auditentry a").fetchone()
    for secret in (publisher.token, subscriber.token, "a-secret-of-the-subscriber"):
        assert secret not in str(names) + str(audit)
