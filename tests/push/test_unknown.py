"""Subscribing to topics that no client has published to, whose they become, and how the root key ends subscriptions."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.instances import Instance, until
from tests.push.bus import ROOT, Client, call, new_client, new_topic, until_acknowledged, url
from tests.push.desk import Desk
from tests.push.receiver import Receiver

HTTPS = "https://callback.example/events"


def listed(client: Client, topic: str) -> dict[str, object] | None:
    return next((each for each in client.call("GET", "/topics").json if each["name"] == topic), None)


@pytest.mark.parametrize("start", [None, "earliest", 0, "2026-01-01T00:00:00Z"])
@pytest.mark.parametrize("several", [False, True], ids=["one topic", "several topics"])
def test_what_is_published_later_reaches_a_subscription_to_an_unknown_topic(
    publisher: Client, subscriber: Client, topic: str, receiver: Receiver, start: object, several: bool
) -> None:
    topics = [topic, *([new_topic()] if several else [])]
    more = {} if start is None else {"from": start}
    subscriber.subscribe(*topics, callback=receiver.url(), timeout=0, **more)
    assert (subscriber.subscription() or {})["topics"] == sorted(topics)
    assert listed(publisher, topic) == {"name": topic, "publisher": None, "events": 0}
    for n in range(6):
        publisher.publish(topics[n % len(topics)], url(n))
    until_acknowledged(receiver, [url(n) for n in range(6)])
    assert (listed(publisher, topic) or {})["publisher"] == publisher.name


def test_an_unknown_topic_belongs_to_its_first_publisher(client: Callable[[], Client], topic: str) -> None:
    subscriber, first, second = client(), client(), client()
    subscriber.subscribe(topic, callback=HTTPS)
    first.publish(topic, url(0))
    for other in (second, subscriber):
        assert other.call("POST", f"/topics/{topic}", {"type": "noop", "url": url(1)}).status == 403
        assert other.call("DELETE", f"/topics/{topic}").status == 403
    first.publish(topic, url(1))


def test_an_unknown_topic_is_deleted_by_the_root_key_alone(
    root: Client, publisher: Client, subscriber: Client, topic: str
) -> None:
    subscriber.subscribe(topic, callback=HTTPS)
    for other in (subscriber, publisher):
        refused = other.call("DELETE", f"/topics/{topic}")
        assert refused.status == 403
        assert "no client has published" in refused.text
    assert root.call("DELETE", f"/topics/{topic}").status == 204
    assert listed(publisher, topic) is None
    assert (subscriber.subscription() or {})["topics"] == []
    publisher.publish(topic, url(0))


def test_an_operator_gives_an_unknown_topic_to_a_publisher(
    desk: Desk, client: Callable[[], Client], topic: str
) -> None:
    subscriber, publisher, other = client(), client(), client()
    subscriber.subscribe(topic, callback=HTTPS)
    assert "none yet" in desk.get(f"/admin/push/bustopic/?q={topic}")
    desk.post(f"/admin/push/bustopic/{topic}/change/", publisher=str(desk.subscriber(publisher)))
    assert other.call("POST", f"/topics/{topic}", {"type": "noop", "url": url(1)}).status == 403
    publisher.publish(topic, url(0))


@pytest.mark.guarantee("P5")
def test_subscribers_and_first_publishers_at_once(client: Callable[[], Client], receiver: Receiver) -> None:
    """A topic has one publisher, and what is published after a subscription is there reaches it."""
    subscribers, publishers = [client() for _ in range(2)], [client() for _ in range(4)]
    for round in range(5):
        topics, statuses = [new_topic() for _ in range(3)], dict[str, int]()
        barrier = threading.Barrier(6)

        def subscribe(who: Client, path: str, topics=topics, barrier=barrier) -> None:
            barrier.wait()
            who.subscribe(*topics, callback=receiver.url(path), timeout=0)

        def publish(who: Client, topics=topics, statuses=statuses, barrier=barrier) -> None:
            barrier.wait()
            event = {"type": "create", "url": url(0)}
            for name in topics:
                statuses[f"{who.name} {name}"] = who.call("POST", f"/topics/{name}", event).status

        threads = [threading.Thread(target=publish, args=(each,)) for each in publishers]
        for n, each in enumerate(subscribers):
            threads.append(threading.Thread(target=subscribe, args=(each, f"/{n}")))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses.values()) == [204] * 3 + [403] * 9
        for place, name in enumerate(topics):
            owner = (listed(publishers[0], name) or {})["publisher"]
            assert statuses[f"{owner} {name}"] == 204
            next(each for each in publishers if each.name == owner).publish(name, url(10 * round + place + 1))
        late = [url(10 * round + place + 1) for place in range(3)]
        for n in range(2):
            until(lambda n=n, late=late: receiver.acknowledged(f"/{n}")[-3:] == late, "what came after")


def test_unknown_topics_are_rejected_where_the_setting_says_so(strict: Instance) -> None:
    publisher, subscriber, topic, unknown = new_client(strict), new_client(strict), new_topic(), new_topic()
    publisher.publish(topic, url(1))
    subscriber.subscribe(topic, callback=HTTPS)
    before = subscriber.subscription()
    reply = subscriber.call("POST", "/subscription", {"topics": [topic, unknown], "callback": HTTPS + "2"})
    assert reply.status == 404
    assert subscriber.subscription() == before
    assert listed(publisher, unknown) is None


# -- The root key ends subscriptions ------------------------------------------------------------------------------------


def test_the_root_key_has_no_subscription_of_its_own(root: Client, topic: str) -> None:
    for path in ("/subscriber", f"/subscriber/topics/{topic}"):
        reply = root.call("DELETE", path)
        assert reply.status == 404
        assert "DELETE /subscribers/NAME" in reply.text


def test_the_root_key_unsubscribes_a_client_whose_token_is_gone(
    bus: Instance, root: Client, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    receiver.answer = lambda handler, batch: 500
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    publisher.publish(topic, url(0))
    root.call("DELETE", f"/api_tokens/{subscriber.token}")
    publisher.publish(topic, url(1))
    assert root.call("DELETE", f"/subscribers/{subscriber.name}").status == 204
    assert root.call("DELETE", f"/subscribers/{subscriber.name}").status == 404
    publisher.publish(topic, url(2))
    receiver.answer = lambda handler, batch: 200
    until_acknowledged(receiver, [url(0), url(1)])
    until(lambda: subscriber.name not in call(bus.port, "GET", "/subscriptions", ROOT).text, "the end of it")


def test_of_subscribers_of_one_name_the_root_key_names_one(bus: Instance, root: Client, desk: Desk, topic: str) -> None:
    name = f"same-{topic.replace('_', '-')}"
    clients = [new_client(bus, name), new_client(bus, name)]
    for each in clients:
        each.subscribe(topic, callback=HTTPS)
    ids = [f"{name}.{desk.subscriber(each)}" for each in clients]
    refused = root.call("DELETE", f"/subscribers/{name}")
    assert refused.status == 400
    assert ", ".join(ids) in refused.text
    assert root.call("DELETE", f"/subscribers/{ids[0]}").status == 204
    assert clients[0].call("DELETE", "/subscriber").status == 404
    assert root.call("DELETE", f"/subscribers/{name}").status == 204
    assert clients[1].call("DELETE", "/subscriber").status == 404


@pytest.mark.parametrize("name", ["x", "x.1", "%00", "%FF", "a%20b", "X"])
def test_a_subscriber_that_is_none_is_refused(root: Client, name: str) -> None:
    assert root.call("DELETE", f"/subscribers/{name}").status in (400, 404)


def test_an_operator_unsubscribes_clients(desk: Desk, subscriber: Client, topic: str) -> None:
    subscriber.subscribe(topic, callback=HTTPS)
    chosen = {"_selected_action": str(desk.subscriber(subscriber))}
    assert "1 unsubscribed." in desk.post("/admin/push/subscriber/", action="unsubscribe", **chosen)
    assert subscriber.subscription() is None
    assert "0 unsubscribed." in desk.post("/admin/push/subscriber/", action="unsubscribe", **chosen)
