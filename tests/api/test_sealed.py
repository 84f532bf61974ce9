"""Sealed topics: refused calls, allowed calls, and the header of their answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.clients import ApiClient, HttpClient, Reply
from tests.instances import until

HEADER = "topics-sealed"


def seal(live: ApiClient, topic: str, sealed: bool = True) -> Reply:
    return live.put(f"/v0/topics/{topic}", {"sealed": sealed})


@pytest.fixture
def topic(api: ApiClient, name: str) -> str:
    """A sealed topic of three records, with a cursor."""
    records = [{"data": number, "tag": f"t:{number}"} for number in (1, 2, 3)]
    api.post(f"/v0/topics/{name}", {"records": records, "idempotency_key": "k" * 16})
    api.put(f"/v0/topics/{name}/cursors/c", {"seq": 1})
    assert seal(api, name).status == 200
    return name


APPENDS: list[dict[str, Any]] = [
    {},
    {"idempotency_key": "another"},
    {"expected_head": 3},
    {"expected_head": 1},
    {"config": {"sealed": False}},
]
DELETES: list[dict[str, Any]] = [
    {"before_seq": 3},
    {"match": "t:2"},
    {"match": ["tag", "Glob", "t*"]},
    {"before_seq": 0},
]


@pytest.mark.parametrize("more", APPENDS, ids=str)
def test_an_append_is_refused(api: ApiClient, topic: str, more: dict[str, Any]) -> None:
    refused = api.append(topic, 4, **more)
    assert (refused.status, refused.code, refused.detail) == (409, "topic_sealed", {"topic": topic})
    assert refused.headers[HEADER] == "1"
    assert api.get(f"/v0/topics/{topic}").json["head_seq"] == 3


@pytest.mark.parametrize("body", DELETES, ids=str)
def test_a_delete_of_records_is_refused(api: ApiClient, topic: str, body: dict[str, Any]) -> None:
    refused = api.post(f"/v0/topics/{topic}/delete", body)
    assert (refused.status, refused.code, refused.headers[HEADER]) == (409, "topic_sealed", "1")
    assert api.get(f"/v0/topics/{topic}").json["count"] == 3


def test_a_full_topic_that_rejects_says_that_it_is_sealed(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/topics/{topic}", {"cap_records": 3, "discard": "reject"})
    assert api.append(topic, 4).code == "topic_sealed"


@pytest.mark.guarantee("W9")
def test_a_retry_is_answered_as_the_first_one_was(api: ApiClient, topic: str) -> None:
    records = [{"data": number, "tag": f"t:{number}"} for number in (1, 2, 3)]
    again = api.post(f"/v0/topics/{topic}", {"records": records, "idempotency_key": "k" * 16})
    assert (again.status, again.json["seqs"], again.json["deduped"]) == (200, [1, 2, 3], True)
    assert again.headers[HEADER] == "1"
    other = api.append(topic, 9, idempotency_key="k" * 16)
    assert (other.status, other.code, other.headers[HEADER]) == (422, "idempotency_mismatch", "1")


def test_an_unsealed_topic_takes_all_again(api: ApiClient, topic: str) -> None:
    api.append(topic, 4)
    unsealed = seal(api, topic, False)
    assert (unsealed.json["config"]["sealed"], HEADER in unsealed.headers) == (False, False)
    appended = api.append(topic, 4)
    assert (appended.json["seqs"], HEADER in appended.headers) == ([4], False)
    assert api.post(f"/v0/topics/{topic}/delete", {"match": "t:2"}).json["deleted"] == 1


def test_a_topic_may_be_sealed_when_it_is_made_but_not_by_an_append(api: ApiClient, name: str) -> None:
    refused = api.append(name, 1, config={"sealed": True})
    assert (refused.status, refused.code, refused.detail) == (400, "invalid_request", {"field": "sealed"})
    assert api.get(f"/v0/topics/{name}").status == 404
    made = api.put(f"/v0/topics/{name}", {"sealed": True})
    assert (made.status, made.headers[HEADER]) == (201, "1")
    assert api.append(name, 1).code == "topic_sealed"


def test_settings_cursors_caps_and_the_delete_of_the_topic_go_on(api: ApiClient, topic: str) -> None:
    assert api.put(f"/v0/topics/{topic}/cursors/c", {"seq": 2}).json["seq"] == 2
    assert api.put(f"/v0/topics/{topic}", {"cap_records": 1}).json["config"]["cap_records"] == 1
    assert [record["data"] for record in api.diff(topic).json["records"]] == [3]
    assert api.put(f"/v0/topics/{topic}", {"ttl_ms": 1}).status == 200
    until(lambda: api.get(f"/v0/topics/{topic}").json["count"] == 0, "the ttl to take the last record")
    assert api.delete(f"/v0/topics/{topic}").json["deleted"]


def calls(topic: str) -> list[tuple[str, str, Any, int]]:
    path = f"/v0/topics/{topic}"
    return [
        ("PUT", path, {}, 200),
        ("GET", path, None, 200),
        ("GET", f"{path}/appends?key_prefix={'k' * 16}", None, 200),
        ("POST", f"{path}/diff", {}, 200),
        ("GET", f"{path}/records", None, 200),
        ("GET", f"{path}/records?from_seq=3", None, 200),
        ("GET", f"{path}/records/2", None, 200),
        ("GET", f"{path}/records/9", None, 404),
        ("GET", f"{path}/cursors", None, 200),
        ("GET", f"{path}/cursors?page_size=1", None, 200),
        ("GET", f"{path}/cursors/c", None, 200),
        ("GET", f"{path}/cursors/none", None, 404),
        ("PUT", f"{path}/cursors/c", {"seq": 2}, 200),
        ("PUT", f"{path}/cursors/c", {"seq": 2, "expected_seq": 7}, 409),
        ("PUT", f"{path}/cursors/c", {"seq": 9}, 400),
        ("PUT", f"{path}/cursors/new", {"seq": 2}, 201),
        ("DELETE", f"{path}/cursors/new", None, 200),
        ("DELETE", f"{path}/cursors/new", None, 200),
        ("DELETE", f"{path}?if_empty=true", None, 409),
        ("POST", f"{path}/delete", {"before_seq": 1}, 409),
    ]


def test_each_answer_about_a_sealed_topic_says_so_and_no_other(api: ApiClient, topic: str) -> None:
    for method, path, body, status in calls(topic):
        reply = api.call(method, path, body)
        assert (reply.status, reply.headers.get(HEADER)) == (status, "1"), (method, path)
    seal(api, topic, False)
    for method, path, body, _ in calls(topic)[:-1]:
        assert HEADER not in api.call(method, path, body).headers, (method, path)


def test_an_empty_list_of_cursors_says_so_too(api: ApiClient, name: str) -> None:
    seal(api, name)
    assert api.get(f"/v0/topics/{name}/cursors").headers[HEADER] == "1"


@pytest.mark.parametrize("more", [{}, {"accept": "application/json, text/plain"}], ids=["lane", "view"])
def test_a_long_poll_does_not_wait_for_a_sealed_topic(live: HttpClient, name: str, more: dict[str, str]) -> None:
    """The test ends by its deadline where a poll waits: half a minute is longer than any poll may take here."""
    live.append(name, 1)
    asked = {"from_seq": 1, "wait_ms": 30_000}
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(live.post, f"/v0/topics/{name}/diff", asked, **more)
        seal(live, name)
        until(waiting.done, "the poll to hear of the seal", seconds=15)
        at_once = threads.submit(live.post, f"/v0/topics/{name}/diff", asked, **more)
        until(at_once.done, "a poll of a sealed topic", seconds=15)
    for reply in (waiting.result(), at_once.result()):
        assert (reply.status, reply.headers[HEADER], reply.json["caught_up"]) == (200, "1", True)


@pytest.mark.guarantee("W9")
@pytest.mark.parametrize("durability", ["disk", "fsync", "memory"])
def test_no_append_is_acked_after_the_seal(live: ApiClient, name: str, durability: str) -> None:
    """Of all processes, plain and under keys: what was acked is there when the PUT answers, and then the head stays."""
    live = live
    for number in range(4):
        topic = f"{name}-{number}"
        live.put(f"/v0/topics/{topic}", {"durability": durability})

        def write(writer: int, topic: str = topic) -> list[int]:
            acked: list[int] = []
            while True:
                more = {"idempotency_key": f"{writer}-{len(acked)}"} if writer % 2 else {}
                reply = live.append(topic, writer, **more)
                if reply.status == 409:
                    assert reply.code == "topic_sealed"
                    return acked
                acked += reply.json["seqs"]

        with ThreadPoolExecutor(8) as threads:
            writing = [threads.submit(write, writer) for writer in range(8)]
            until(lambda topic=topic: live.get(f"/v0/topics/{topic}").json["head_seq"] > 40, "some appends")
            assert seal(live, topic).status == 200
            head_seq = live.get(f"/v0/topics/{topic}").json["head_seq"]
            acked = sorted(seq for each in writing for seq in each.result())
        assert acked == list(range(1, head_seq + 1))
        assert live.get(f"/v0/topics/{topic}").json["head_seq"] == head_seq
