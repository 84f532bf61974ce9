"""Many at once, through a whole server: order, atomicity, keys, and counts that stay exact (docs/guarantees.md)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from tests.api.clients import HttpClient, Reply
from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from tests.log.writers import read_all, write_in_processes, write_in_threads

pytestmark = pytest.mark.deep


# What the heads say beside what is there to be seen: own rows, and those that spans show.
HELD = """
SELECT t.name, h.count, h.bytes, coalesce(seen.records, 0), coalesce(seen.bytes, 0), h.floor_seq + 1,
       coalesce(first, h.head_seq + 1)
  FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id
  LEFT JOIN (SELECT topic, count(*) AS records, sum(octet_length(data::text)) AS bytes, min(seq) AS first
               FROM topic_log GROUP BY topic) seen ON seen.topic = t.name
 WHERE starts_with(t.name, %s)
"""


@pytest.fixture
def live(server: Instance) -> HttpClient:
    return HttpClient(server.port)


def together(*work: Callable[[], Any]) -> list[Any]:
    """All of it at the same time; returns what each answered."""
    gate = threading.Barrier(len(work))

    def pass_gate(each: Callable[[], Any]) -> Any:
        gate.wait(DEADLINE)
        return each()

    with ThreadPoolExecutor(len(work)) as pool:
        return [each.result() for each in [pool.submit(pass_gate, each) for each in work]]


@pytest.mark.guarantee("W2")
def test_writers_in_threads_and_processes_make_one_order(server: Instance, live: HttpClient) -> None:
    live.put("/v0/topics/order")
    with ThreadPoolExecutor(2) as pool:
        writing: list[Future[Any]] = [
            pool.submit(write_in_processes, server.port, "order", 2, 4, 30),
            pool.submit(write_in_threads, server.port, "order", "thread", 4, 30),
        ]
        seen: list[tuple[int, str]] = []
        done = False
        while not done:
            done = not wait(writing, timeout=0).not_done  # the last look comes after the last ack
            from_seq = seen[-1][0] if seen else 0
            window = live.diff("order", from_seq=from_seq, limit=1000).json
            assert window["tombstone"] is None
            seen += [(record["$seq"], record["data"]) for record in window["records"]]
            done = done and window["caught_up"]
    acked = [append for each in writing for append in each.result()]
    records = dict(seen)
    # No reader ever saw n+1 before n.
    assert [seq for seq, _ in seen] == list(range(1, len(seen) + 1))
    assert len(seen) == sum(len(data) for _, data in acked)
    for first_seq, data in acked:
        assert [records[first_seq + place] for place in range(len(data))] == data


@pytest.mark.guarantee("W1")
def test_all_records_of_an_append_or_none(server: Instance, live: HttpClient) -> None:
    live.put("/v0/topics/whole")
    too_long = {"records": [{"data": "good"}, {"data": "bad", "tag": "x" * 257}]}
    refused = [lambda: live.post("/v0/topics/whole", too_long)] * 8
    taken = [lambda: live.append("whole", "a", "b", "c")] * 8
    statuses = [answer.status for answer in together(*refused, *taken)]
    assert statuses == [400] * 8 + [200] * 8
    assert [record["data"] for record in read_all(server.port, "whole")] == ["a", "b", "c"] * 8


@pytest.mark.guarantee("W6")
def test_fifty_retries_of_one_append_are_one(server: Instance, live: HttpClient) -> None:
    live.put("/v0/topics/retried")
    answers = together(*[lambda: live.append("retried", 1, 2, idempotency_key="one")] * 50)
    assert [answer.status for answer in answers] == [200] * 50
    assert sorted(answer.json["deduped"] for answer in answers) == [False] + [True] * 49
    assert {(answer.json["first_seq"], answer.json["last_seq"]) for answer in answers} == {(1, 2)}
    assert [record["data"] for record in read_all(server.port, "retried")] == [1, 2]


@pytest.mark.guarantee("W6")
def test_of_two_appends_that_race_under_one_key_one_is_refused(server: Instance, live: HttpClient) -> None:
    live.put("/v0/topics/mistaken")
    answers = together(*[lambda n=n: live.append("mistaken", n % 2, idempotency_key="one") for n in range(40)])  # type: ignore[misc]
    ((kept,),) = {tuple(record["data"] for record in read_all(server.port, "mistaken"))}
    assert [answer.status for answer in answers] == [200 if n % 2 == kept else 422 for n in range(40)]
    assert sum(answer.status == 200 and not answer.json["deduped"] for answer in answers) == 1


@pytest.mark.guarantee("W7")
def test_of_many_who_expect_one_head_one_gets_it(live: HttpClient) -> None:
    live.put("/v0/topics/fenced")
    answers = together(*[lambda: live.append("fenced", 1, expected_head=0)] * 16)
    assert sorted(answer.status for answer in answers) == [200] + [409] * 15


@pytest.mark.parametrize(
    ("status", "wanted"),
    [(409, {"expected_head": 5}), (422, {"config": {"cap_records": 1, "discard": "reject"}})],
)
def test_appends_that_are_refused_together_leave_no_topic_behind(
    live: HttpClient, status: int, wanted: dict[str, Any]
) -> None:
    answers = together(*[lambda: live.append(f"refused.{status}", 1, 2, **wanted)] * 8)
    assert [answer.status for answer in answers] == [status] * 8
    assert live.get(f"/v0/topics/refused.{status}").status == 404


@pytest.mark.guarantee("S6")
def test_counts_stay_exact_under_everything_at_once(server: Instance, live: HttpClient) -> None:
    """Appends that evict, tag deletes that mark before they lock, floors that move, forwarding and reclaim."""
    live.put("/v0/topics/busy.source", {"cap_records": 300})
    live.put("/v0/topics/busy.dest", {"cap_records": 200, "ttl_ms": 60_000})
    live.put("/v0/routers/busy", {"source": "busy.source", "dest": "busy.dest"})

    def append(who: int) -> None:
        for number in range(60):
            records = [{"data": f"{who}.{number}", "tag": f"tag{number % 7}"} for _ in range(5)]
            assert live.post("/v0/topics/busy.source", {"records": records}).status == 200
            assert live.append("busy.dest", "direct").status == 200

    def delete(topic: str) -> None:
        for number in range(40):
            match = ["tag", "Glob", "tag*"] if number % 10 == 9 else ["tag", "Eq", f"tag{number % 7}"]
            assert live.post(f"/v0/topics/{topic}/delete", {"match": match}).status == 200

    def trim(topic: str) -> None:
        for _ in range(20):
            earliest = live.get(f"/v0/topics/{topic}").json["earliest_seq"]
            assert live.post(f"/v0/topics/{topic}/delete", {"before_seq": earliest + 3}).status == 200

    topics = ("busy.source", "busy.dest")
    together(
        *[lambda who=who: append(who) for who in range(3)],  # type: ignore[misc]
        *[lambda topic=topic: delete(topic) for topic in topics],  # type: ignore[misc]
        *[lambda topic=topic: trim(topic) for topic in topics],  # type: ignore[misc]
    )
    live.diff("busy.dest")  # forwards what is left to forward
    with server.connect() as database:
        held = database.execute(HELD, ["busy."]).fetchall()
    assert len(held) == 2
    for name, count, size, records, payload, earliest, first in held:
        assert (count, size) == (records, payload), name
        assert earliest == first, name
    for topic in topics:
        assert len(read_all(server.port, topic)) == live.get(f"/v0/topics/{topic}").json["count"]


def test_of_deletes_that_race_each_record_goes_with_one(live: HttpClient) -> None:
    topics = [f"raced.{n}" for n in range(3)]
    for topic in topics:
        live.post(f"/v0/topics/{topic}", {"records": [{"data": n, "tag": f"tag{n % 20}"} for n in range(100)]})

    def delete(number: int) -> list[Reply]:
        by_tag, by_seq = {"match": f"tag{number % 20}"}, {"before_seq": number * 2}
        return [live.post(f"/v0/topics/{topic}/delete", wanted) for topic in topics for wanted in (by_tag, by_seq)]

    answers = [answer for each in together(*[lambda n=n: delete(n) for n in range(24)]) for answer in each]  # type: ignore[misc]
    assert {answer.status for answer in answers} == {200}
    assert sum(answer.json["deleted"] for answer in answers) == 300
    for topic in topics:
        held = live.get(f"/v0/topics/{topic}").json
        assert (held["count"], held["bytes"], held["earliest_seq"]) == (0, 0, 101)


def test_two_transactions_do_not_wait_for_each_other_for_ever(live: HttpClient) -> None:
    """Appends with keys, configs, routers and deletes of the same topics: every call ends, and none by a deadlock."""

    def append(who: int) -> list[Reply]:
        return [live.append("locks.a", n, idempotency_key=f"{who}.{n}") for n in range(30)]

    def configure() -> list[Reply]:
        return [live.put("/v0/topics/locks.a", {"cap_records": 10 + n}) for n in range(30)]

    def route() -> list[Reply]:
        router = {"source": "locks.a", "dest": "locks.b"}
        return [live.put("/v0/routers/locks", router) if n % 2 else live.delete("/v0/routers/locks") for n in range(30)]

    def delete() -> list[Reply]:
        return [live.delete("/v0/topics/locks.a" if n % 2 else "/v0/topics/locks.b") for n in range(15)]

    def mark() -> list[Reply]:
        return [live.put("/v0/topics/locks.a/cursors/c", {"at": "head"}) for _ in range(30)]

    answers = [
        answer
        for each in together(*[lambda: append(1), lambda: append(2), configure, route, delete, mark])
        for answer in each
    ]
    assert {answer.status for answer in answers} <= {200, 201, 404}


@pytest.mark.guarantee("S7")
def test_rows_that_nothing_shows_go_by_themselves(server: Instance, live: HttpClient) -> None:
    live.put("/v0/topics/gone", {"ttl_ms": 1})
    live.append("gone", *range(500))
    with server.connect() as database:
        (id,) = database.execute("SELECT id FROM topics_topic WHERE name = 'gone'").fetchone() or (0,)
        stored = "SELECT count(*) FROM topics_record WHERE topic_id = %s"
        until(lambda: database.execute(stored, [id]).fetchone() == (0,), "the background to reclaim 500 records")
