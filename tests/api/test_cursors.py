"""/v0/topics/:topic/cursors and /v0/topics/:topic/cursors/:cursor."""

import threading
import time
from typing import Any

import pytest

from contract.listing import next_cursor
from tests.api.clients import ApiClient
from tests.api.test_get_topic import make_older
from tests.deadlines import DEADLINE


@pytest.fixture
def topic(api: ApiClient, name: str) -> str:
    """Five records, each with a $ts of its own."""
    return with_records(api, name)


def with_records(live: ApiClient, name: str) -> str:
    for data in range(5):
        live.append(name, data)
        time.sleep(0.002)  # another millisecond
    return name


def test_it_works(api: ApiClient, topic: str) -> None:
    made = api.put(f"/v0/topics/{topic}/cursors/c", {"seq": 2})
    assert (made.status, made.json["created"], made.json["seq"]) == (201, True, 2)
    moved = api.put(f"/v0/topics/{topic}/cursors/c", {"seq": 3})
    assert (moved.status, moved.json["created"]) == (200, False)
    reply = api.get(f"/v0/topics/{topic}/cursors/c")
    assert reply.status == 200
    answer = reply.json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert abs(answer.pop("updated_ts") - time.time() * 1000) < 60_000
    assert 0 <= answer.pop("oldest_unread_ms") < 60_000
    assert answer == {"topic": topic, "cursor": "c", "kind": "named", "seq": 3, "lag": 2}


def test_a_new_cursor_above_the_cap_is_refused(views: ApiClient, name: str, settings: Any) -> None:
    settings.TOPICS_MAX_CURSORS_PER_TOPIC = 2
    cursors = f"/v0/topics/{with_records(views, name)}/cursors"
    assert [views.put(f"{cursors}/{each}", {"seq": 1}).status for each in ("a", "b")] == [201, 201]
    for wanted in ({"seq": 1}, {"seq": 1, "expected_seq": 0}):
        refused = views.put(f"{cursors}/c", wanted)
        assert (refused.status, refused.code) == (429, "throttled")
        assert refused.detail == {"limit": "cursors_per_topic", "max": 2}
    assert views.put(f"{cursors}/c", {"seq": 1, "expected_seq": 2}).code == "cursor_moved"
    assert views.put(f"{cursors}/a", {"seq": 2}).status == 200
    assert views.delete(f"{cursors}/b").status == 200
    assert views.put(f"{cursors}/c", {"seq": 1}).status == 201


def test_lag_is_of_the_moment(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/topics/{topic}/cursors/c", {"at": "head"})
    caught_up = api.get(f"/v0/topics/{topic}/cursors/c").json
    assert (caught_up["lag"], caught_up["oldest_unread_ms"]) == (0, None)
    api.append(topic, 1, 2, 3)
    behind = api.get(f"/v0/topics/{topic}/cursors/c").json
    assert (behind["lag"], behind["oldest_unread_ms"] is None) == (3, False)


def test_the_oldest_unread_is_one_that_is_still_there(views: ApiClient, name: str) -> None:
    topic, hour = with_records(views, name), 3_600_000
    views.put(f"/v0/topics/{topic}/cursors/c", {"seq": 0})
    make_older(topic, below=6, ms=hour)
    assert views.get(f"/v0/topics/{topic}/cursors/c").json["oldest_unread_ms"] >= hour
    views.append(topic, "new")
    views.post(f"/v0/topics/{topic}/delete", {"before_seq": 6})
    now = views.get(f"/v0/topics/{topic}/cursors/c").json
    assert (now["lag"], now["oldest_unread_ms"] < hour) == (6, True)
    views.put(f"/v0/topics/{topic}", {"ttl_ms": 1})
    time.sleep(0.01)  # over the ttl by any clock
    assert views.get(f"/v0/topics/{topic}/cursors/c").json["oldest_unread_ms"] is None


def test_it_stands_where_a_time_says(api: ApiClient, topic: str) -> None:
    for record in api.diff(topic).json["records"]:
        put = api.put(f"/v0/topics/{topic}/cursors/c", {"from_ts": record["$ts"]})
        assert put.json["seq"] == record["$seq"] - 1
    assert api.put(f"/v0/topics/{topic}/cursors/c", {"from_ts": 2**62}).json["seq"] == 5


def test_it_stands_at_either_end(api: ApiClient, topic: str) -> None:
    api.post(f"/v0/topics/{topic}/delete", {"before_seq": 3})
    assert api.put(f"/v0/topics/{topic}/cursors/c", {"at": "earliest"}).json["seq"] == 2
    assert api.put(f"/v0/topics/{topic}/cursors/c", {"at": "head"}).json["seq"] == 5


def test_it_may_go_back(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/topics/{topic}/cursors/c", {"seq": 5})
    assert api.put(f"/v0/topics/{topic}/cursors/c", {"seq": 1}).json["lag"] == 4


@pytest.mark.guarantee("R6")
def test_an_owner_that_was_replaced_is_fenced(api: ApiClient, topic: str) -> None:
    path = f"/v0/topics/{topic}/cursors/c"
    refused = api.put(path, {"seq": 3, "expected_seq": 2})
    assert (refused.status, refused.code, refused.detail) == (409, "cursor_moved", {"seq": 0, "expected_seq": 2})
    assert api.get(path).status == 404
    assert api.put(path, {"seq": 2, "expected_seq": 0}).status == 201
    assert api.put(path, {"seq": 3, "expected_seq": 2}).json["seq"] == 3
    refused = api.put(path, {"seq": 4, "expected_seq": 2})
    assert (refused.status, refused.code, refused.detail) == (409, "cursor_moved", {"seq": 3, "expected_seq": 2})
    assert api.get(path).json["seq"] == 3


@pytest.mark.guarantee("R6")
def test_one_of_many_owners_moves_it(live: ApiClient, name: str) -> None:
    """Twenty think that it stands at 0: one is right."""
    live.append(name, *range(20))
    path = f"/v0/topics/{name}/cursors/c"
    statuses: list[int] = []

    def move(seq: int) -> None:
        statuses.append(live.put(path, {"seq": seq, "expected_seq": 0}).status)

    threads = [threading.Thread(target=move, args=(seq,)) for seq in range(1, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert sorted(statuses) == [201] + [409] * 19


def test_it_is_forgotten(api: ApiClient, topic: str) -> None:
    path = f"/v0/topics/{topic}/cursors/c"
    api.put(path, {"seq": 1})
    reply = api.delete(path)
    answer = reply.json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert (reply.status, answer) == (200, {"topic": topic, "cursor": "c", "deleted": True})
    assert api.get(path).code == "not_found"
    assert api.delete(path).json["deleted"] is False


def test_they_are_listed_by_name_in_pages(api: ApiClient, topic: str) -> None:
    for cursor in ("b", "a", "c"):
        api.put(f"/v0/topics/{topic}/cursors/{cursor}", {"seq": 4})
    first = api.get(f"/v0/topics/{topic}/cursors?page_size=2").json
    assert [each["cursor"] for each in first["cursors"]] == ["a", "b"]
    assert set(first["cursors"][0]) == {"topic", "cursor", "kind", "seq", "lag", "oldest_unread_ms", "updated_ts"}
    rest = api.get(f"/v0/topics/{topic}/cursors?page_size=2&cursor={first['next_cursor']}").json
    assert [each["cursor"] for each in rest["cursors"]] == ["c"]
    assert "next_cursor" not in rest
    assert api.get(f"/v0/topics/{topic}/cursors").json["cursors"][0]["lag"] == 1


def test_a_topic_without_any_lists_none(api: ApiClient, topic: str) -> None:
    assert api.get(f"/v0/topics/{topic}/cursors").json["cursors"] == []


def test_a_routers_cursor_is_listed_and_left_alone(api: ApiClient, topic: str) -> None:
    api.put(f"/v0/routers/{topic}-r", {"source": topic, "dest": f"{topic}-d", "from": "earliest"})
    (listed,) = api.get(f"/v0/topics/{topic}/cursors").json["cursors"]
    assert (listed["cursor"], listed["kind"]) == (f"{topic}-r", "router")
    path = f"/v0/topics/{topic}/cursors/{topic}-r"
    assert api.get(path).json["kind"] == "router"
    for refused in (api.put(path, {"at": "head"}), api.delete(path)):
        assert (refused.status, refused.code, refused.detail) == (409, "topic_exists_incompatible", {"kind": "router"})


REFUSED: list[Any] = [
    b"{",
    b"[]",
    {},
    {"expected_seq": 1},
    {"seq": 1, "at": "head"},
    {"seq": 1, "from_ts": 1},
    {"at": "head", "from_ts": 1},
    {"seq": -1},
    {"seq": 6},
    {"seq": 2**63},
    {"seq": "1"},
    {"seq": 1.5},
    {"from_ts": -1},
    {"at": "middle"},
    {"at": 1},
    {"seq": 1, "expected_seq": -1},
    {"seq": 1, "expected_seq": "x"},
]


@pytest.mark.parametrize("body", REFUSED, ids=str)
def test_what_makes_no_sense_is_refused(api: ApiClient, topic: str, body: Any) -> None:
    refused = api.put(f"/v0/topics/{topic}/cursors/c", body)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert api.get(f"/v0/topics/{topic}/cursors/c").status == 404


@pytest.mark.parametrize("bad", ["-a", "a%20b", "a%00b", "a%ff", "a" * 256])
def test_a_bad_name_is_refused(api: ApiClient, topic: str, bad: str) -> None:
    for path in (f"/v0/topics/{topic}/cursors/{bad}", f"/v0/topics/{bad}/cursors/c"):
        for refused in (api.put(path, {"seq": 1}), api.get(path), api.delete(path)):
            assert (refused.status, refused.code) == (400, "invalid_request"), path


def test_an_absent_topic_is_not_found(api: ApiClient, name: str) -> None:
    path = f"/v0/topics/{name}/cursors/c"
    for body in ({"seq": 0}, {"at": "head"}, {"at": "earliest"}, {"from_ts": 5}):
        assert api.put(path, body).code == "topic_not_found"
    for refused in (api.get(path), api.delete(path), api.get(f"/v0/topics/{name}/cursors")):
        assert (refused.status, refused.code) == (404, "topic_not_found")


@pytest.mark.parametrize(
    "query",
    ["page_size=0", "page_size=x", "cursor=x", "cursor=WyJhIl0=", f"cursor={next_cursor('a', 'named', f'{1:05000}')}"],
)
def test_a_bad_page_is_refused(api: ApiClient, topic: str, query: str) -> None:
    assert api.get(f"/v0/topics/{topic}/cursors?{query}").code == "invalid_request"


def test_another_media_type_is_refused(api: ApiClient, topic: str) -> None:
    refused = api.put(f"/v0/topics/{topic}/cursors/c", b'{"seq":1}', content_type="text/plain")
    assert refused.code == "unsupported_media_type"
