"""GET /v0/topics/:topic/appends: the last append under keys that begin alike."""

import pytest

from tests.api.clients import ApiClient
from tests.scripts import look_up
from topics.cache import keep

PREFIX = "import:0123456789:"


def last(api: ApiClient, topic: str, prefix: str = PREFIX):
    reply = api.get(f"/v0/topics/{topic}/appends?key_prefix={prefix}")
    assert reply.status == 200
    assert reply.json["topic"] == topic
    return reply.json["last"]


def test_it_works(api: ApiClient, name: str) -> None:
    api.append(name, 0)
    assert last(api, name) is None
    for key in ("9", "10", "é\U0010ffff"):  # by seq, and not by the key
        api.append(name, 1, 2, idempotency_key=f"{PREFIX}{key}")
    api.append(name, 3, idempotency_key="import:0123456789;")
    api.append(name, 4)
    found = last(api, name)
    assert found.pop("ts") > 0
    assert found == {"key": f"{PREFIX}é\U0010ffff", "first_seq": 6, "last_seq": 7}
    assert last(api, name, f"{PREFIX}1")["last_seq"] == 5


def test_a_key_out_of_its_window_is_not_remembered(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"idempotency_window_ms": 0})
    api.append(name, 1, idempotency_key=f"{PREFIX}1")
    assert last(api, name) is None


@pytest.mark.parametrize("query", ["", "?key_prefix=short", f"?key_prefix={'x' * 257}"])
def test_keys_are_not_to_be_found_out(api: ApiClient, name: str, query: str) -> None:
    api.append(name, 1, idempotency_key="a")
    reply = api.get(f"/v0/topics/{name}/appends{query}")
    assert (reply.status, reply.code) == (400, "invalid_request")


def test_an_absent_topic_is_told(api: ApiClient, name: str) -> None:
    reply = api.get(f"/v0/topics/{name}/appends?key_prefix={PREFIX}")
    assert (reply.status, reply.code) == (404, "topic_not_found")


def test_a_process_that_remembers_an_older_topic_of_the_name_looks_again(views: ApiClient, name: str) -> None:
    views.append(name, 0, idempotency_key=f"{PREFIX}1")
    remembered = look_up(name)
    views.delete(f"/v0/topics/{name}")
    keep(remembered)  # another process deleted it
    assert views.get(f"/v0/topics/{name}/appends?key_prefix={PREFIX}").code == "topic_not_found"
    views.append(name, 1, 2, idempotency_key=f"{PREFIX}2")
    keep(remembered)
    assert last(views, name)["last_seq"] == 3
