"""Tokens: which one a request's credentials are, which ones are refused, and that a token is its client's identity."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable

import pytest

from push.bus.clients import usernames
from tests.instances import Instance, until
from tests.push.bus import ROOT, Client, call, new_topic, url
from tests.push.receiver import Receiver

HTTPS = "https://callback.example/events"


def credentials(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_the_longest_username_is_tried_first() -> None:
    assert usernames(credentials("ab:b2:x")) == ["ab:b2:x", "ab:b2", "ab"]


@pytest.mark.guarantee("P6")
@pytest.mark.parametrize("longer", [False, True], ids=["the shorter is there", "the longer is there"])
def test_a_token_that_can_be_taken_for_another_is_refused(root: Client, longer: bool) -> None:
    short = new_topic()
    tokens = [short, f"{short}:b2"]
    first, second = reversed(tokens) if longer else tokens
    assert root.call("POST", "/api_tokens", {"name": "first", "token": first}).status == 201
    refused = root.call("POST", "/api_tokens", {"name": "second", "token": second})
    assert refused.status == 400
    assert "look the same in HTTP Basic" in refused.text
    assert short not in refused.text
    assert second not in [each["token"] for each in root.call("GET", "/api_tokens").json]
    # A token with the same start is another token.
    assert root.call("POST", "/api_tokens", {"name": "third", "token": f"{short}b2"}).status == 201


def test_a_token_that_can_be_taken_for_the_root_key_is_refused(root: Client) -> None:
    refused = root.call("POST", "/api_tokens", {"name": "second", "token": f"{ROOT}:x"})
    assert refused.status == 400
    assert "root key" in refused.text
    assert ROOT not in refused.text


def test_a_token_of_an_earlier_version_is_its_own_clients(bus: Instance, root: Client, publisher: Client) -> None:
    """Earlier versions made tokens that begin with another one and a colon."""
    topic = new_topic()
    longer = Client(bus, "longer", f"{publisher.token}:b2")
    rooted = Client(bus, "rooted", f"{ROOT}:b2")
    with bus.connect() as connection:
        for each in (longer, rooted):
            add = "INSERT INTO push_busclient (name, token, created_ts) VALUES (%s, %s, 0)"
            connection.execute(add, [each.name, each.token])
    until(lambda: call(bus.port, "GET", "/api_tokens", rooted.token).status == 401, "every process to know")
    longer.publish(topic, url(1))
    assert publisher.call("POST", f"/topics/{topic}", {"type": "noop", "url": url(1)}).status == 403
    for each in (longer, rooted):
        assert root.call("DELETE", f"/api_tokens/{each.token}").status == 204


@pytest.mark.parametrize(
    "how", ["\xff", "Basic \xff", "Basic \xff\xfe==", "Basic /w==", "Basic \xe4:x", "\xff \xff", "Basic"]
)
@pytest.mark.parametrize("path", ["/topics", "/api_tokens", "/pulse"])
def test_credentials_that_are_no_text_are_unknown(bus: Instance, path: str, how: str) -> None:
    reply = call(bus.port, "GET", path, None, headers={"Authorization": how})
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Basic")


# -- A token is its client's identity -----------------------------------------------------------------------------------


def deleted(root: Client, client: Client) -> None:
    assert root.call("DELETE", f"/api_tokens/{client.token}").status == 204
    until(lambda: call(root.instance.port, "GET", "/topics", client.token).status == 401, "every process to know")


def restored(root: Client, client: Client, name: str | None = None) -> Client:
    made = root.call("POST", "/api_tokens", {"name": name or client.name, "token": client.token})
    assert made.status == 201
    return Client(client.instance, name or client.name, client.token)


@pytest.mark.guarantee("P6")
def test_a_token_that_is_made_again_has_its_topics_and_its_subscription(
    root: Client, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), timeout=0)
    for each in (publisher, subscriber):
        deleted(root, each)
    publisher = restored(root, publisher, "renamed")
    subscriber = restored(root, subscriber)
    publisher.publish(topic, url(1))
    until(lambda: receiver.acknowledged() == [url(1)], "the event")
    (found,) = [each for each in publisher.call("GET", "/topics").json if each["name"] == topic]
    assert found == {"name": topic, "publisher": "renamed", "events": 2}
    subscriber.subscribe(topic, callback=HTTPS, max=7)
    assert (subscriber.subscription() or {})["max_events"] == 7
    assert subscriber.call("DELETE", "/subscriber").status == 204
    assert subscriber.subscription() is None


def test_a_token_that_another_client_was_given_is_a_stranger_to_deleted_ones(
    root: Client, client: Callable[[], Client], topic: str
) -> None:
    first, second = client(), client()
    first.publish(topic, url(0))
    deleted(root, first)
    assert second.call("POST", f"/topics/{topic}", {"type": "noop", "url": url(1)}).status == 403
    restored(root, first).publish(topic, url(1))


# -- At once ------------------------------------------------------------------------------------------------------------


def at_once(*calls: Callable[[], object]) -> list[object]:
    """What the calls return, each made in a thread of its own when all are ready."""
    barrier, results = threading.Barrier(len(calls)), [None] * len(calls)

    def run(place: int) -> None:
        barrier.wait()
        results[place] = calls[place]()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.guarantee("P6")
def test_of_two_tokens_that_can_be_taken_for_each_other_one_is_made(root: Client) -> None:
    for _ in range(10):
        short = new_topic()
        made = at_once(
            *(
                lambda token=token: root.call("POST", "/api_tokens", {"name": "a", "token": token}).status
                for token in (short, f"{short}:1", short, f"{short}:1:2")
            )
        )
        tokens = [each["token"] for each in root.call("GET", "/api_tokens").json if each["token"].startswith(short)]
        assert len(tokens) == 1
        assert made.count(201) == (2 if tokens == [short] else 1)


def test_a_token_that_is_made_and_deleted_at_once_stays_one_client(bus: Instance, root: Client) -> None:
    token = f"again--{new_topic()}"
    for _ in range(10):
        at_once(
            lambda: root.call("POST", "/api_tokens", {"name": "again", "token": token}),
            lambda: root.call("DELETE", f"/api_tokens/{token}"),
            lambda: root.call("POST", "/api_tokens", {"name": "again", "token": token}),
            lambda: root.call("DELETE", f"/api_tokens/{token}"),
        )
    with bus.connect() as connection:
        found = connection.execute(
            "SELECT count(*) FROM push_busclient WHERE token = %(token)s OR token_sha256 = sha256(%(token)s::text::bytea)",
            {"token": token},
        ).fetchone()
    assert found == (1,)
