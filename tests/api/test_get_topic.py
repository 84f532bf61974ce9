"""GET /v0/topics/:topic."""

import time

import pytest
from django.db import connection

from tests.api.clients import ApiClient
from tests.instances import Instance
from tests.scripts import look_up
from topics.cache import keep
from topics.read import recency


def held(api: ApiClient, name: str, query: str = "") -> dict:
    reply = api.get(f"/v0/topics/{name}{query}")
    assert reply.status == 200
    return reply.json


def test_it_works(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"priority": 5})
    empty = held(api, name)
    assert empty.pop("config")["priority"] == 5
    assert empty.pop("performance")["server_total_ms"] > 0
    assert empty == {
        "topic": name,
        "type": "log",
        "head_seq": 0,
        "earliest_seq": 1,
        "next_seq": 1,
        "count": 0,
        "bytes": 0,
        "effective_priority": 5,
        "last_write_ts": None,
        "last_read_ts": None,
    }
    api.post(f"/v0/topics/{name}", {"records": [{"data": "xy"}, {"data": 1, "meta": {"a": 1}}]})
    full = held(api, name)
    assert (full["head_seq"], full["earliest_seq"], full["next_seq"], full["count"]) == (2, 1, 3, 2)
    assert full["bytes"] == len('"xy"') + len('1{"a": 1}')
    assert abs(full["last_write_ts"] - time.time() * 1000) < 60_000


def test_a_topic_is_shown_as_it_is_whatever_the_process_remembers(views: ApiClient, name: str) -> None:
    views.put(f"/v0/topics/{name}", {"ttl_ms": 60_000})
    views.append(name, 1)
    remembered = look_up(name)
    views.put(f"/v0/topics/{name}", {"ttl_ms": 0, "dead_letter": None, "priority": 7})
    keep(remembered)
    found = held(views, name)
    assert (found["config"]["ttl_ms"], found["config"]["priority"], found["effective_priority"]) == (0, 7, 7)
    views.delete(f"/v0/topics/{name}")
    keep(remembered)
    assert views.get(f"/v0/topics/{name}").code == "topic_not_found"
    views.put(f"/v0/topics/{name}", {"priority": 1})
    keep(remembered)
    assert (held(views, name)["head_seq"], held(views, name)["config"]["priority"]) == (1, 1)


def test_an_absent_topic_is_not_found(api: ApiClient, name: str) -> None:
    refused = api.get(f"/v0/topics/{name}")
    assert (refused.status, refused.code, refused.detail) == (404, "topic_not_found", {"topic": name})


def test_it_is_exact_after_eviction_and_deletes(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"cap_records": 5})
    api.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": str(n)} for n in range(8)]})
    api.post(f"/v0/topics/{name}/delete", {"match": "5"})
    now = held(api, name)
    assert (now["earliest_seq"], now["count"], now["bytes"], now["head_seq"]) == (4, 4, 4, 8)
    api.post(f"/v0/topics/{name}/delete", {"before_seq": 6})
    now = held(api, name)
    assert (now["earliest_seq"], now["count"], now["bytes"]) == (7, 2, 2)


@pytest.mark.parametrize("deleted", [False, True])
def test_it_is_exact_under_a_ttl_and_writes_nothing(views: ApiClient, name: str, deleted: bool) -> None:
    """With holes, too: then counting goes another way."""
    views.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": str(n)} for n in range(6)]})
    if deleted:
        views.post(f"/v0/topics/{name}/delete", {"match": "1"})
        views.post(f"/v0/topics/{name}/delete", {"match": "4"})
    views.put(f"/v0/topics/{name}", {"ttl_ms": 3_600_000})
    make_older(name, below=4, ms=7_200_000)
    now = held(views, name, "?touch=false")
    gone = {4} if deleted else set()
    live = [seq for seq in (4, 5, 6) if seq - 1 not in gone]
    assert (now["count"], now["bytes"], now["earliest_seq"]) == (len(live), len(live), live[0])
    (listed,) = views.get(f"/v0/topics?prefix={name}").json["topics"]
    assert (listed["count"], listed["bytes"], listed["earliest_seq"]) == (len(live), len(live), live[0])
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.floor_seq FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id WHERE t.name = %s",
            [name],
        )
        assert cursor.fetchone() == (0,)
    make_older(name, below=7, ms=7_200_000)
    assert (held(views, name)["count"], held(views, name)["earliest_seq"], held(views, name)["bytes"]) == (0, 7, 0)


def make_older(name: str, below: int, ms: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE topics_record r SET ts = ts - %s FROM topics_topic t "
            "WHERE t.id = r.topic_id AND t.name = %s AND r.seq < %s",
            [ms, name, below],
        )


def test_a_read_is_told_and_touch_false_leaves_it_alone(views: ApiClient, name: str) -> None:
    views.append(name, 1)
    assert held(views, name, "?touch=false")["last_read_ts"] is None
    assert held(views, name, "?touch=true")["last_read_ts"] is None  # as it was before this call
    first = held(views, name, "?touch=false")["last_read_ts"]
    assert abs(first - time.time() * 1000) < 60_000
    time.sleep(0.002)  # another millisecond
    views.diff(name)
    assert held(views, name, "?touch=false")["last_read_ts"] > first


def test_a_read_is_written_down_without_waiting_for_an_append(views: ApiClient, name: str) -> None:
    from topics.models import TopicHead

    views.append(name, 1)
    views.diff(name)
    noted = held(views, name, "?touch=false")["last_read_ts"]
    assert recency.flush() >= 1
    assert TopicHead.objects.get(topic__name=name).last_read_ts == noted
    assert recency.flush() == 0
    assert held(views, name, "?touch=false")["last_read_ts"] == noted


def test_a_head_that_an_append_holds_is_not_waited_for(live: ApiClient, server: Instance, name: str) -> None:
    for topic in (f"{name}-held", f"{name}-free"):
        live.append(topic, 1)
    with server.connect() as writer, server.connect() as flusher:
        ids = [row[0] for row in writer.execute("SELECT id FROM topics_topic WHERE name ^@ %s ORDER BY name", [name])]
        free, locked = ids
        flusher.execute("SET statement_timeout = '20s'")  # were it to wait, it would for ever
        with writer.transaction():
            writer.execute("SELECT FROM topics_topichead WHERE topic_id = %s FOR UPDATE", [locked])
            assert flusher.execute(recency.FLUSH, [ids, [2**50, 2**50]]).fetchall() == [(free,)]
        assert flusher.execute(recency.FLUSH, [[locked], [2**50]]).fetchall() == [(locked,)]
        # A topic that is gone is done with.
        assert flusher.execute(recency.FLUSH, [[-1], [2**50]]).fetchall() == [(-1,)]


@pytest.mark.parametrize(
    ("config", "idle_ms", "expected"),
    [
        ({}, 0, 0),
        ({}, 999, 0),
        ({}, 5_000, -5),
        ({}, 10**9, -1000),
        ({"priority": 3}, 5_000, 3),
        ({"auto_priority": False}, 5_000, 0),
        ({"auto_priority": False, "priority": -7}, 5_000, -7),
    ],
)
def test_priority_is_by_recency_where_none_is_set(config: dict, idle_ms: int, expected: int) -> None:
    given = config.get("priority"), config.get("auto_priority", True)
    assert recency.effective_priority(*given, touched_ts=1_000_000, now=1_000_000 + idle_ms) == expected


def test_a_topic_nobody_touches_sinks(views: ApiClient, name: str) -> None:
    from topics.models import Topic, TopicHead

    views.append(name, 1)
    Topic.objects.filter(name=name).update(created_ts=1)
    ago = int(time.time() * 1000) - 20_000
    TopicHead.objects.filter(topic__name=name).update(last_ts=ago, last_read_ts=0, version=2)  # looked up again
    assert -25 <= held(views, name, "?touch=true")["effective_priority"] <= -20
    assert held(views, name, "?touch=false")["effective_priority"] == 0


@pytest.mark.parametrize("query", ["touch=maybe", "touch=", "touch=%00", "touch=%ff"])
def test_an_unknown_query_value_is_refused(api: ApiClient, name: str, query: str) -> None:
    api.put(f"/v0/topics/{name}")
    refused = api.get(f"/v0/topics/{name}?{query}")
    assert (refused.status, refused.code) == (400, "invalid_request")


@pytest.mark.parametrize("bad", ["-a", "a%20b", "a%00b", "a%ff", "%C3%A9", "a" * 256])
def test_a_bad_name_is_refused(api: ApiClient, bad: str) -> None:
    refused = api.get(f"/v0/topics/{bad}")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_a_name_may_be_percent_encoded(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}:a")
    assert held(api, f"{name}%3Aa")["topic"] == f"{name}:a"
