"""Every status of the page, with its meaning."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.instances import Instance, until
from tests.push.bus import ROOT, Client, call, new_topic, url
from tests.push.receiver import Receiver

EVENT = {"type": "create", "url": url(1)}
HTTPS = "https://callback.example/events"


# -- Authentication ---------------------------------------------------------------------------------------------------

PATHS = [
    ("GET", "/api_tokens"),
    ("POST", "/api_tokens"),
    ("DELETE", "/api_tokens/x"),
    ("GET", "/topics"),
    ("POST", "/topics/x"),
    ("DELETE", "/topics/x"),
    ("DELETE", "/topic/x"),
    ("POST", "/subscription"),
    ("POST", "/subscriber"),
    ("DELETE", "/subscriber"),
    ("DELETE", "/subscriber/topics/x"),
    ("DELETE", "/subscribers/x"),
    ("GET", "/subscriptions"),
    ("GET", "/subscribers"),
    ("GET", "/pulse"),
    ("GET", "/pulse/scaling"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("authorization", [None, "Basic", "Basic !", "Basic bm9ib2R5Ong=", "Bearer " + ROOT])
def test_strangers_are_asked_for_a_token(bus: Instance, method: str, path: str, authorization: str | None) -> None:
    reply = call(bus.port, method, path, None, {}, {"Authorization": authorization} if authorization else {})
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Basic")


def test_a_client_does_not_manage_tokens_and_the_root_key_does_not_publish(
    root: Client, publisher: Client, topic: str
) -> None:
    assert publisher.call("GET", "/api_tokens").status == 401
    assert publisher.call("POST", "/api_tokens", {"name": "more"}).status == 401
    assert publisher.call("DELETE", f"/api_tokens/{publisher.token}").status == 401
    assert root.call("POST", f"/topics/{topic}", EVENT).status == 401
    assert root.call("POST", "/subscription", {"topics": [], "callback": HTTPS}).status == 401
    assert publisher.call("DELETE", f"/subscribers/{publisher.name}").status == 401


def test_the_password_is_ignored(bus: Instance, publisher: Client) -> None:
    assert call(bus.port, "GET", "/topics", f"{publisher.token}:whatever").status == 200


def test_a_token_may_hold_colons(bus: Instance, root: Client) -> None:
    token = f"a:b:{new_topic()}"
    assert root.call("POST", "/api_tokens", {"name": "colons", "token": token}).status == 201
    assert call(bus.port, "GET", "/topics", token).status == 200
    assert call(bus.port, "GET", "/topics", token[:-1]).status == 401


def test_a_sealed_topic_takes_no_event(
    bus: Instance, publisher: Client, subscriber: Client, receiver: Receiver, topic: str
) -> None:
    assert publisher.call("POST", f"/topics/{topic}", EVENT).status == 204
    subscriber.subscribe(topic, callback=receiver.url())
    assert call(bus.port, "PUT", f"/v0/topics/bus:{topic}", None, {"sealed": True}).status == 200
    refused = publisher.call("POST", f"/topics/{topic}", EVENT)
    assert (refused.status, refused.headers["topics-sealed"]) == (409, "1")
    assert "is sealed" in refused.text
    assert call(bus.port, "PUT", f"/v0/topics/bus:{topic}", None, {"sealed": False}).status == 200
    publisher.publish(topic, url(2))
    until(lambda: receiver.acknowledged() == [url(2)], "the event to be delivered")


# -- Tokens ------------------------------------------------------------------------------------------------------------


def test_tokens_are_made_listed_and_deleted(bus: Instance, root: Client) -> None:
    made = root.call("POST", "/api_tokens", {"name": "billing-service"})
    assert made.status == 201
    assert made.json["name"] == "billing-service"
    assert re.fullmatch(r"billing-service--[0-9a-f]{32}", made.json["token"])
    assert made.json in root.call("GET", "/api_tokens").json
    assert {"name": "seeded", "token": "seeded--0123456789"} in root.call("GET", "/api_tokens").json
    assert {"name": "client", "token": "plain"} in root.call("GET", "/api_tokens").json
    for _ in range(2):
        deleted = root.call("DELETE", f"/api_tokens/{made.json['token']}")
        assert (deleted.status, deleted.body) == (204, b"")
    assert made.json not in root.call("GET", "/api_tokens").json
    until(lambda: call(bus.port, "GET", "/topics", made.json["token"]).status == 401, "every process to know")


def test_a_token_of_ones_own(root: Client) -> None:
    token = f"mine--{new_topic()}"
    for name in ("first", "second"):
        made = root.call("POST", "/api_tokens", {"name": name, "token": token})
        assert (made.status, made.json) == (201, {"name": name, "token": token})
    assert [each["name"] for each in root.call("GET", "/api_tokens").json if each["token"] == token] == ["second"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "Upper"},
        {"name": "a.b"},
        {"name": "n" * 65},
        {"name": 5},
        {"name": "a", "token": "T"},
        {"name": "a", "token": ""},
        {"name": "a", "token": "t" * 65},
        {"name": "a", "token": ROOT},
        {"name": "a", "more": 1},
        b"{",
        [],
    ],
)
def test_a_bad_token_is_refused(root: Client, body: Any) -> None:
    reply = root.call("POST", "/api_tokens", body)
    assert reply.status == 400
    assert reply.headers["content-type"].startswith("text/plain")
    assert reply.text.strip()


def test_without_clients_there_is_no_list(instances: Callable[..., Instance]) -> None:
    """And each answer of an instance that has nothing yet; also with a proxy's TLS, and without."""
    alone = instances(
        ROUTEMASTER_ROOT_KEY=ROOT, FORCE_SSL="1", TOPICS_TLS_PROXY="1", ALLOWED_HOSTS="bus.example,127.0.0.1"
    )
    plain = call(alone.port, "POST", "/topics/a%20b?c=d", ROOT, EVENT, {"Host": "bus.example:8080"})
    assert (plain.status, plain.headers["location"]) == (308, "https://bus.example/topics/a%20b?c=d")
    behind = {"Host": "bus.example", "X-Forwarded-Proto": "https"}
    assert call(alone.port, "GET", "/api_tokens", ROOT, headers=behind).status == 204
    assert call(alone.port, "GET", "/topics", ROOT, headers=behind).json == []
    assert call(alone.port, "GET", "/subscriptions", ROOT, headers=behind).json == []


# -- Publishing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["create", "update", "delete", "noop"])
def test_an_event_is_published(publisher: Client, topic: str, type: str) -> None:
    reply = publisher.call("POST", f"/topics/{topic}", {"type": type, "url": url(1), "timestamp": None, "data": None})
    assert (reply.status, reply.body) == (204, b"")
    found = [each for each in publisher.call("GET", "/topics").json if each["name"] == topic]
    assert found == [{"name": topic, "publisher": publisher.name, "events": 1}]


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "create"},
        {"url": url(1)},
        {"type": "created", "url": url(1)},
        {"type": None, "url": url(1)},
        {"type": "create", "url": "http://a.example/1"},
        {"type": "create", "url": "https://"},
        {"type": "create", "url": "https:///path"},
        {"type": "create", "url": "https://a.example/ b"},
        {"type": "create", "url": "ftp://a.example/"},
        {"type": "create", "url": "https://a.example:port/"},
        {"type": "create", "url": "https://a.example/" + "x" * 1007},
        {"type": "create", "url": 5},
        {**EVENT, "timestamp": "1"},
        {**EVENT, "timestamp": 1.5},
        {**EVENT, "timestamp": True},
        {**EVENT, "timestamp": 2**63},
        {**EVENT, "more": 1},
        [EVENT],
        b"",
        b"{",
        b'{"type":"create","url":"https://a.example/","data":}',
    ],
)
def test_a_bad_event_is_refused_in_a_sentence(publisher: Client, topic: str, event: Any) -> None:
    reply = publisher.call("POST", f"/topics/{topic}", event)
    assert reply.status == 400
    assert reply.text.strip()
    assert topic not in [each["name"] for each in publisher.call("GET", "/topics").json]


def test_a_url_may_have_1024_characters(publisher: Client, topic: str) -> None:
    publisher.publish(topic, "https://a.example/" + "x" * 1006)


@pytest.mark.parametrize("name", ["Orders", "orders1", "a-b", "x" * 65, "%C3%A4"])
def test_a_bad_topic_name_is_refused(publisher: Client, name: str) -> None:
    assert publisher.call("POST", f"/topics/{name}", EVENT).status == 400


def test_a_body_that_is_no_json_is_refused(publisher: Client, topic: str) -> None:
    assert publisher.call("POST", f"/topics/{topic}", b"{}", Content_Type="text/plain").status == 415


def test_only_the_first_publisher_publishes(client: Callable[[], Client], topic: str) -> None:
    first, second = client(), client()
    first.publish(topic, url(1))
    reply = second.call("POST", f"/topics/{topic}", EVENT)
    assert reply.status == 403
    first.publish(topic, url(2))


@pytest.mark.guarantee("P5")
def test_of_racing_first_publishers_one_wins(client: Callable[[], Client]) -> None:
    clients = [client() for _ in range(6)]
    for _ in range(5):
        topic, statuses = new_topic(), dict[str, int]()
        barrier = threading.Barrier(len(clients))

        def race(who: Client, topic=topic, statuses=statuses, barrier=barrier) -> None:
            barrier.wait()
            statuses[who.name] = who.call("POST", f"/topics/{topic}", EVENT).status

        threads = [threading.Thread(target=race, args=(each,)) for each in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses.values()) == [204] + [403] * (len(clients) - 1)
        (found,) = [each for each in clients[0].call("GET", "/topics").json if each["name"] == topic]
        assert found == {"name": topic, "publisher": next(n for n, s in statuses.items() if s == 204), "events": 1}


# -- Subscribing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/subscription", "/subscriber"])
def test_a_subscription_is_made_and_changed_in_one_step(
    publisher: Client, subscriber: Client, topic: str, path: str
) -> None:
    other = new_topic()
    for each in (topic, other):
        publisher.publish(each, url(1))
    body = {"topics": [topic, topic], "callback": HTTPS, "uuid": "me"}
    assert subscriber.call("POST", path, body).status == 204
    events = {"sent": 0, "queued": 0, "oldest": None}
    settings = {"callback": HTTPS, "max_events": 100, "timeout": 500, "topics": [topic]}
    expected = {"subscriber": subscriber.name, "uuid": "me", **settings}
    assert subscriber.subscription() == {**expected, "events": events}
    changed = {"topics": [other], "callback": HTTPS + "2", "uuid": None, "timeout": 0, "max": 7}
    assert subscriber.call("POST", path, changed).status == 204
    expected |= {"uuid": None, "callback": HTTPS + "2", "max_events": 7, "timeout": 0, "topics": [other]}
    assert subscriber.subscription() == {**expected, "events": events}
    assert subscriber.call("GET", "/subscribers").json == subscriber.call("GET", "/subscriptions").json


@pytest.mark.parametrize(
    "body",
    [
        {"callback": HTTPS},
        {"topics": []},
        {"topics": "all", "callback": HTTPS},
        {"topics": ["Not A Name"], "callback": HTTPS},
        {"topics": [], "callback": "http://callback.example/"},
        {"topics": [], "callback": HTTPS + "?a=b"},
        {"topics": [], "callback": HTTPS + "#a"},
        {"topics": [], "callback": "nowhere"},
        {"topics": [], "callback": HTTPS, "timeout": -1},
        {"topics": [], "callback": HTTPS, "timeout": 3_600_001},
        {"topics": [], "callback": HTTPS, "timeout": 0.5},
        {"topics": [], "callback": HTTPS, "max": 0},
        {"topics": [], "callback": HTTPS, "max": 10_001},
        {"topics": [], "callback": HTTPS, "uuid": 1},
        {"topics": [], "callback": HTTPS, "uuid": "a:b"},
        {"topics": [], "callback": HTTPS, "uuid": "a\nb"},
        {"topics": [], "callback": HTTPS, "from": "latest"},
        {"topics": [], "callback": HTTPS, "from": "2026-01-01T00:00:00"},
        {"topics": [], "callback": HTTPS, "from": -1},
        {"topics": [], "callback": HTTPS, "more": 1},
    ],
)
def test_a_bad_subscription_is_refused_and_changes_nothing(subscriber: Client, body: Any) -> None:
    reply = subscriber.call("POST", "/subscription", body)
    assert reply.status == 400
    assert reply.text.strip()
    assert subscriber.subscription() is None


def test_unsubscribing(publisher: Client, subscriber: Client, topic: str) -> None:
    other = new_topic()
    assert subscriber.call("DELETE", "/subscriber").status == 404
    assert subscriber.call("DELETE", f"/subscriber/topics/{topic}").status == 404
    for each in (topic, other):
        publisher.publish(each, url(1))
    subscriber.subscribe(topic, other, callback=HTTPS)
    assert subscriber.call("DELETE", f"/subscriber/topics/{topic}").status == 204
    assert subscriber.call("DELETE", f"/subscriber/topics/{topic}").status == 404
    assert subscriber.call("DELETE", "/subscriber/topics/UPPER").status == 400
    assert (subscriber.subscription() or {})["topics"] == [other]
    assert subscriber.call("DELETE", "/subscriber").status == 204
    assert subscriber.subscription() is None
    assert subscriber.call("DELETE", "/subscriber").status == 404


# -- Deleting topics ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/topic/", "/topics/"])
def test_a_topic_is_deleted_by_its_publisher_or_the_root_key(
    root: Client, publisher: Client, subscriber: Client, path: str
) -> None:
    for who in (publisher, root):
        topic = new_topic()
        assert who.call("DELETE", path + topic).status == 404
        publisher.publish(topic, url(1))
        subscriber.subscribe(topic, callback=HTTPS)
        assert subscriber.call("DELETE", path + topic).status == 403
        assert who.call("DELETE", path + topic).status == 204
        assert topic not in [each["name"] for each in publisher.call("GET", "/topics").json]
        assert (subscriber.subscription() or {})["topics"] == []
    assert publisher.call("DELETE", path + "UPPER").status == 400


def test_a_deleted_topic_is_anybodys(client: Callable[[], Client], topic: str) -> None:
    first, second = client(), client()
    first.publish(topic, url(1))
    assert first.call("DELETE", f"/topics/{topic}").status == 204
    second.publish(topic, url(2))
    assert first.call("POST", f"/topics/{topic}", EVENT).status == 403


# -- What is queued stays queued ---------------------------------------------------------------------------------------


@pytest.mark.guarantee("P1")
@pytest.mark.parametrize("several", [False, True], ids=["one topic", "several topics"])
@pytest.mark.parametrize("how", ["unsubscribe", "unsubscribe all", "resubscribe", "delete topic", "delete token"])
def test_what_is_queued_is_still_delivered(
    root: Client, publisher: Client, subscriber: Client, topic: str, receiver: Receiver, how: str, several: bool
) -> None:
    receiver.answer = lambda handler, batch: 500
    other = new_topic()
    for each in (topic, other):
        publisher.publish(each, url(0))
    subscriber.subscribe(topic, *([other] if several else []), callback=receiver.url(), timeout=0, max=2)
    for n in range(7):
        publisher.publish(topic, url(n))
    match how:
        case "unsubscribe":
            done = subscriber.call("DELETE", f"/subscriber/topics/{topic}")
        case "unsubscribe all":
            done = subscriber.call("DELETE", "/subscriber")
        case "resubscribe":
            done = subscriber.call("POST", "/subscription", {"topics": [], "callback": receiver.url()})
        case "delete topic":
            done = publisher.call("DELETE", f"/topics/{topic}")
        case _:
            done = root.call("DELETE", f"/api_tokens/{subscriber.token}")
    assert done.status == 204
    if how != "delete topic":
        publisher.publish(topic, url(7))
    receiver.answer = lambda handler, batch: 200
    expected = [url(n) for n in range(8 if how == "delete token" else 7)]
    until(lambda: len(receiver.acknowledged()) >= len(expected), "what was queued")
    assert receiver.acknowledged() == expected


# -- Monitoring --------------------------------------------------------------------------------------------------------


def test_there_is_a_pulse(root: Client, publisher: Client) -> None:
    for who in (root, publisher):
        for path in ("/pulse", "/pulse/scaling"):
            reply = who.call("GET", path)
            assert (reply.status, reply.body) == (204, b"")


def test_other_methods_are_not_allowed(root: Client) -> None:
    assert root.call("PUT", "/topics").status == 405
    assert root.call("GET", "/subscription").status == 405
