"""The examples of Routemaster's own specs of its controllers, as far as a client can ask them over HTTP.

Ids and messages are the words of those specs. docs/push.md lists the differences ("Differences from Routemaster").

Some examples cannot be sent over HTTP. `pushes the event`, `auth: none`, `sets the current_token` and the failing pulse replace
parts of Routemaster. A claimed topic with 0 events, and a subscription with a null callback, are written into its Redis."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.instances import WHOLE, Instance, start, until
from tests.push.bus import ROOT, Client, call, new_client, new_topic, url
from tests.push.receiver import Receiver

HTTPS = "https://app.example.com/events"
WIDGET = {"type": "create", "url": "https://example.com/widgets/123"}
NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def original(settings_of_bus: dict[str, str]) -> Iterator[Instance]:
    """An instance with the limits of the original's tests, on which scaling is advised as soon as one delivery is due."""
    limits = {
        "ROUTEMASTER_MAX_EVENT_DATA": "64",
        "ROUTEMASTER_SCALING_THRESHOLD": "1",
        "ROUTEMASTER_SCALING_DEADLINE": "1000",
    }
    with start(**{**WHOLE, **settings_of_bus, **limits}) as instance:
        yield instance


@pytest.fixture
def joe(original: Instance) -> Client:
    return new_client(original)


@pytest.fixture
def bob(original: Instance) -> Client:
    return new_client(original)


def test_api_tokens(instances: Callable[..., Instance]) -> None:
    root = Client(instances(ROUTEMASTER_ROOT_KEY=ROOT), "root", ROOT)

    def listed() -> tuple[int, bytes]:
        reply = root.call("GET", "/api_tokens")
        return reply.status, reply.body

    assert listed() == (204, b""), "returns a 204 when no keys exist"
    assert root.call("DELETE", "/api_tokens/foobar").status == 204, "when key does not exist"
    made = root.call("POST", "/api_tokens", {"name": "alice"})
    assert made.status == 201, "can request a new token"
    assert made.json.keys() == {"name", "token"}
    assert made.json["name"] == "alice"
    assert root.call("GET", "/api_tokens").json == [made.json], "can list existing tokens"
    assert root.call("DELETE", f"/api_tokens/{made.json['token']}").status == 204, "when key exists"
    assert listed() == (204, b""), "removes the key from the list"


@pytest.mark.parametrize(
    ("method", "path", "passes"),
    [("POST", "/topics/widgets_of_auth", "client"), ("GET", "/api_tokens", "root"), ("GET", "/topics", "client root")],
    ids=["auth: client", "auth: root", "auth: root, client"],
)
@pytest.mark.parametrize("who", ["no auth", "invalid", "client", "root"])
def test_auth(original: Instance, method: str, path: str, passes: str, who: str) -> None:
    joe = Client(original, "plain", "plain")  # of ROUTEMASTER_CLIENTS
    token = {"no auth": None, "invalid": "secret", "client": joe.token, "root": ROOT}[who]
    status = call(original.port, method, path, token, WIDGET if method == "POST" else None).status
    assert status in (200, 204) if who in passes.split() else status == 401


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (WIDGET, 204),
        ({**WIDGET, "timestamp": float(NOW_MS // 1000 * 1000)}, 204),
        ({**WIDGET, "timestamp": None}, 204),
        ({**WIDGET, "data": {"lat": 45.1882728, "lon": 5.723756}}, 204),
        ({**WIDGET, "data": "0123456789abcdef" * 4}, 400),
        (b"whatever", 400),
        ({**WIDGET, "type": "whatever"}, 400),
    ],
    ids=[
        "responds ok",
        "when supplying a timestamp",
        "when supplying a null timestamp",
        "when supplying a data payload",
        "with too much data",
        "returns 400 on bad JSON",
        "returns 400 on bad event type",
    ],
)
def test_post_topics(joe: Client, topic: str, event: Any, status: int) -> None:
    assert joe.call("POST", f"/topics/{topic}", event).status == status


def test_post_topics_returns_400_on_bad_topic(joe: Client) -> None:
    assert joe.call("POST", "/topics/oh_my_gentle_jeezuss1234toolong", WIDGET).status == 400


def test_post_topics_when_the_topic_is_claimed(joe: Client, bob: Client, topic: str) -> None:
    bob.publish(topic, url(1))
    assert joe.call("POST", f"/topics/{topic}", WIDGET).status == 403


def test_get_topics_lists_all_available_topics(original: Instance, topic: str) -> None:
    root, name = Client(original, "root", ROOT), topic.replace("_", "-")
    assert root.call("POST", "/api_tokens", {"name": name, "token": name}).status == 201
    joe, other = Client(original, name, name), new_topic()
    for each in (topic, other):
        joe.publish(each, url(1))
    reply = joe.call("GET", "/topics")
    assert reply.status == 200
    for each in (topic, other):
        assert {"name": each, "publisher": name, "events": 1} in reply.json


def test_delete_topics(joe: Client, topic: str) -> None:
    assert joe.call("DELETE", f"/topics/{topic}").status == 404, "at rest"
    joe.publish(topic, url(1))
    assert joe.call("DELETE", f"/topics/{topic}").status == 204, "with a topic"
    assert topic not in [each["name"] for each in joe.call("GET", "/topics").json], "deletes the topic"


def test_get_subscribers_lists_all_subscribers_with_required_data_points(
    joe: Client, bob: Client, topic: str, receiver: Receiver
) -> None:
    receiver.answer = lambda handler, batch: 500
    joe.publish(topic, url(0))
    bob.subscribe(topic, callback=receiver.url(), uuid="subscriber-one--12345678")
    for n in range(33):
        joe.publish(topic, url(n))
    (found,) = [each for each in bob.call("GET", "/subscribers").json if each["subscriber"] == bob.name]
    oldest = found["events"].pop("oldest")
    assert found == {
        "subscriber": bob.name,
        "uuid": "subscriber-one--12345678",
        "callback": receiver.url(),
        "max_events": 100,
        "timeout": 500,
        "topics": [topic],
        "events": {"sent": 0, "queued": 33},
    }
    assert oldest >= NOW_MS // 1000 - 1


@pytest.mark.parametrize(
    ("changed", "status", "seen"),
    [
        ({}, 204, {}),
        ({"topics": ["grizzlis"]}, 204, {"topics": ["grizzlis"]}),
        ({"topics": 1234}, 400, None),
        ({"callback": "http://example.com"}, 400, None),
        (b"nonsense", 400, None),
        ({"timeout": 500}, 204, {}),
        ({"max": 500}, 204, {}),
        ({}, 204, {"callback": HTTPS}),
        ({}, 204, {"uuid": "alice"}),
        ({"timeout": 675}, 204, {"timeout": 675}),
        ({"max": 512}, 204, {"max_events": 512}),
    ],
    ids=[
        "returns 204 with correct payload",
        "acceptc unknown topics",
        "rejects bad topic lists",
        "rejects bad callbacks",
        "rejects non-JSON bodies",
        'accepts an optional "timeout"',
        'accepts an optional "max"',
        "sets the subscriber callback",
        "sets the subscriber uuid",
        "sets the subscriber timeout",
        "sets the subscriber max",
    ],
)
def test_post_subscriber(bob: Client, changed: Any, status: int, seen: dict[str, Any] | None) -> None:
    payload = {"topics": ["widgets"], "callback": HTTPS, "uuid": "alice"}
    body = changed if isinstance(changed, bytes) else {**payload, **changed}
    assert bob.call("POST", "/subscriber", body).status == status
    found = bob.subscription()
    if seen is None:
        assert found is None
    else:
        assert found is not None
        assert seen.items() <= found.items() if not seen.get("topics") else found["topics"] == seen["topics"]


def test_delete_subscriber(bob: Client) -> None:
    assert bob.call("DELETE", "/subscriber").status == 404, "at rest"
    bob.subscribe(callback=HTTPS)
    assert bob.call("DELETE", "/subscriber").status == 204, "when the subscriber exists"


def test_delete_subscriber_topics(joe: Client, bob: Client, topic: str) -> None:
    path = f"/subscriber/topics/{topic}"
    assert bob.call("DELETE", path).status == 404, "at rest"
    joe.publish(topic, url(1))
    assert bob.call("DELETE", path).status == 404, "when only the topic exists"
    bob.subscribe(callback=HTTPS)
    assert bob.call("DELETE", "/subscriber/topics/widget").status == 404, "when only the subscriber exists"
    assert bob.call("DELETE", path).status == 404, "when not subscribed"
    bob.subscribe(topic, callback=HTTPS)
    assert bob.call("DELETE", path).status == 204, "when the subscriber exists"


def test_pulse(joe: Client) -> None:
    reply = joe.call("GET", "/pulse")
    assert (reply.status, reply.body) == (204, b"")


def test_scaling_is_advised_when_many_deliveries_are_due(
    joe: Client, bob: Client, topic: str, receiver: Receiver
) -> None:
    """As many as the threshold, due within the deadline. One that is scheduled for later does not count."""
    receiver.answer = lambda handler, batch: 500

    def seconds() -> float:
        began = time.monotonic()
        assert joe.call("GET", "/pulse/scaling").status == 204
        return time.monotonic() - began

    joe.publish(topic, url(0))
    bob.subscribe(topic, callback=receiver.url(), timeout=0)
    joe.publish(topic, url(1))
    until(lambda: seconds() >= 1, "a pulse that takes a second")
    receiver.answer = lambda handler, batch: 200
    until(bob.drained, "the delivery")
    bob.subscribe(topic, callback=receiver.url(), timeout=3_600_000)
    joe.publish(topic, url(2))
    assert bob.events()["queued"] == 1
    until(lambda: seconds() < 1, "a pulse that takes no second")


def test_root_unsubscribes_nobody(original: Instance) -> None:
    """The original looks for a subscriber that is called like the root key, and finds none."""
    for path in ("/subscriber", "/subscriber/topics/widgets"):
        assert call(original.port, "DELETE", path, ROOT).status == 404


def test_unknown_endpoint(joe: Client) -> None:
    assert joe.call("POST", "/whatever").status == 404
