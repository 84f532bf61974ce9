"""GET /v0/topics."""

from typing import Any

import pytest
from django.db import connection

from tests.api.clients import ApiClient
from topics.read import describe as state


def make(count: int, prefix: str) -> list[str]:
    """Many topics at once, in the order of a list."""
    names = [f"{prefix}{n:05}" for n in range(count)]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH made AS (
                INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority,
                                          auto_create, idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms,
                                          max_deliveries, leases_durable, created_ts)
                SELECT name, 'log', 0, 0, 0, 'old', 'disk', true, true, 0, true, 0, 0, 0, false, 0
                  FROM unnest(%s::text[]) name RETURNING id)
            INSERT INTO topics_topichead SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM made
            """,
            [names],
        )
    return names


def names(answer: Any) -> list[str]:
    return [topic["topic"] for topic in answer["topics"]]


def test_it_works(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}-b", {"durable": True, "priority": 9})
    api.append(f"{name}-a", "x")
    reply = api.get(f"/v0/topics?prefix={name}")
    assert reply.status == 200
    answer = reply.json
    assert answer.pop("performance")["server_total_ms"] > 0
    first = {"topic": f"{name}-a", "head_seq": 1, "earliest_seq": 1, "count": 1, "bytes": 3}
    second = {"topic": f"{name}-b", "head_seq": 0, "earliest_seq": 1, "count": 0, "bytes": 0}
    assert answer == {
        "topics": [
            {**first, "durable": False, "effective_priority": 0},
            {**second, "durable": True, "effective_priority": 9},
        ]
    }


def test_it_is_empty_where_nothing_is(api: ApiClient, name: str) -> None:
    assert api.get(f"/v0/topics?prefix={name}").json["topics"] == []


def test_names_are_in_byte_order_and_prefixes_byte_exact(api: ApiClient, name: str) -> None:
    made = [f"{name}{end}" for end in ("", "-", ".", "0", ":", "A", "Z", "_", "a", "z")]
    for each in reversed(made):
        api.put(f"/v0/topics/{each}")
    api.put(f"/v0/topics/{name.upper()}")
    assert names(api.get(f"/v0/topics?prefix={name}").json) == made
    assert names(api.get(f"/v0/topics?prefix={name}%3A").json) == [f"{name}:"]
    assert names(api.get(f"/v0/topics?prefix={name}%25").json) == []


def test_pages_follow_one_another(views: ApiClient, name: str) -> None:
    made = make(25, name)
    seen, query, pages = [], "page_size=10", 0
    while True:
        answer = views.get(f"/v0/topics?prefix={name}&{query}").json
        seen += names(answer)
        pages += 1
        if "next_cursor" not in answer:
            break
        query = f"page_size=10&cursor={answer['next_cursor']}"
    assert (seen, pages) == (made, 3)
    assert "next_cursor" not in views.get(f"/v0/topics?prefix={name}&page_size=25").json


def test_a_page_has_100_entries_and_1000_at_the_most(views: ApiClient, name: str) -> None:
    make(1001, name)
    assert len(views.get(f"/v0/topics?prefix={name}").json["topics"]) == 100
    assert len(views.get(f"/v0/topics?prefix={name}&page_size=5000").json["topics"]) == 1000


def test_a_page_does_not_look_at_other_topics(views: ApiClient, name: str) -> None:
    """Quick with 10,000 topics and more: each page is a range of the index on the name."""
    make(10_000, name)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE topics_topic, topics_topichead")
        arguments = {"prefixes": [name], "after": f"{name}05000", "limit": 101, "now": 0}
        cursor.execute("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) " + state.PAGE, arguments)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Seq Scan on topics_topic" not in plan, plan
    assert "rows=10000" not in plan, plan
    assert "Index" in plan, plan


def test_a_key_sees_what_lies_within_its_prefixes(views: ApiClient, name: str, keys) -> None:
    for end in ("a1", "a2", "b1", "c1"):
        views.put(f"/v0/topics/{name}{end}")
    keys(f"all:read,some:read:{name}a|{name}c|{name}a1,none:read:zzz")

    def seen(secret: str, query: str = "") -> list[str]:
        reply = views.get(f"/v0/topics?prefix={name}{query}", authorization=f"Bearer {secret}")
        return [each.removeprefix(name) for each in names(reply.json)]

    assert seen("all") == ["a1", "a2", "b1", "c1"]
    assert seen("some") == ["a1", "a2", "c1"]
    assert seen("some", "a2") == ["a2"]
    assert seen("some", "b") == []
    assert seen("none") == []
    first = views.get(f"/v0/topics?prefix={name}&page_size=2", authorization="Bearer some").json
    rest = views.get(f"/v0/topics?page_size=2&cursor={first['next_cursor']}", authorization="Bearer some").json
    assert names(first) + names(rest) == [f"{name}a1", f"{name}a2", f"{name}c1"]
    assert "next_cursor" not in rest


@pytest.mark.parametrize(
    ("prefix", "allowed", "expected"),
    [
        ("", (), [""]),
        ("a", (), ["a"]),
        ("", ("b", "a"), ["a", "b"]),
        ("", ("ab", "a", "abc"), ["a"]),
        ("ab", ("a",), ["ab"]),
        ("a", ("ab", "ac", "b"), ["ab", "ac"]),
        ("x", ("a", "b"), []),
    ],
)
def test_prefixes_meet(prefix: str, allowed: tuple[str, ...], expected: list[str]) -> None:
    assert state.intersection(prefix, allowed) == expected


@pytest.mark.parametrize(
    "query",
    [
        "page_size=0",
        "page_size=-1",
        "page_size=ten",
        "page_size=",
        "page_size=1.5",
        "page_size=%00",
        "cursor=x",
        "cursor=%ff",
        "cursor=e30=",  # {}
        "cursor=WyJhIl0",  # cut off
        "cursor=WzFd",  # [1]
        "cursor=WyJhIiwiYiJd",  # two names
        "cursor=WyJcdTAwMDAiXQ==",  # a NUL
        "prefix=%00",
        "prefix=%ff",
    ],
)
def test_a_bad_query_is_refused(api: ApiClient, query: str) -> None:
    refused = api.get(f"/v0/topics?{query}")
    assert (refused.status, refused.code) == (400, "invalid_request")
