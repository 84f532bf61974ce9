"""Forwarding, blocked routers and reported losses. Each former bug has the test that saw it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection, transaction

from base.clock import now_ms
from base.errors import NotReady, StorageFull, TopicsError
from routers import advance, tasks
from routers.models import Router
from store.database import prepared
from tests.api.clients import ApiClient
from tests.instances import until
from tests.log.test_batch import locker  # noqa: F401  # a fixture
from tests.routers.conftest import read, route
from topics.models import Span, Topic, TopicHead


def id_of(topic: str) -> int:
    return Topic.objects.get(name=topic).pk


def drain(topic: str) -> list[advance.Moved]:
    return list(advance.drain(id_of(topic), now_ms))


def step(topic: str, limit: int) -> None:
    prepared(advance.ADVANCE, (id_of(topic), None, False, limit, now_ms(), settings.TOPICS_MAX_ROUTER_HOPS))


def cursor_of(router: str) -> int:
    return Router.objects.select_related("cursor").get(name=router).cursor.seq


def test_a_drain_goes_on_to_what_leads_on(views: ApiClient, names: Iterator[str]) -> None:
    a, b, c, d = next(names), next(names), next(names), next(names)
    route(views, a, b), route(views, b, c, filter="x"), route(views, b, d)
    views.post(f"/v0/topics/{a}", {"records": [{"data": tag, "tag": tag} for tag in "xyx"]})
    assert {move.topic_id: move.head_seq for move in drain(a)} == {id_of(b): 3, id_of(c): 2, id_of(d): 3}
    assert drain(a) == []


def test_one_source_many_dests_one_row_each(views: ApiClient, names: Iterator[str]) -> None:
    source, dests = next(names), [next(names) for _ in range(20)]
    for dest in dests:
        route(views, source, dest)
    views.append(source, *range(50))
    drain(source)
    assert Span.objects.filter(home_id=id_of(source)).count() == 20
    head = TopicHead.objects.get(topic__name=source)
    for dest in dests:
        there = TopicHead.objects.get(topic__name=dest)
        assert (there.head_seq, there.count, there.bytes) == (50, 50, head.bytes)
    assert read(views, dests[7]) == list(range(50))


def test_direct_writes_interleave(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, onward = next(names), next(names), next(names)
    route(api, source, dest), route(api, dest, onward)
    for number in range(3):
        api.append(source, f"far {number}")
        read(api, dest)
        api.append(dest, f"near {number}")
    assert read(api, onward) == read(api, dest) == [f"{kind} {n}" for n in range(3) for kind in ("far", "near")]


def test_ts_and_seq_are_the_dests_own(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    views.append(dest, "first")
    route(views, source, dest)
    views.append(source, 1)
    with connection.cursor() as cursor:  # the dest's clock is ahead
        cursor.execute("UPDATE topics_topichead SET last_ts = last_ts + 60000 WHERE topic_id = %s", [id_of(dest)])
    ahead = TopicHead.objects.get(topic__name=dest).last_ts
    (record,) = views.diff(dest, from_seq=1).json["records"]
    assert (record["$seq"], record["$ts"]) == (2, ahead)


def test_tags_that_a_router_cleared_match_no_filter_behind_it(api: ApiClient, names: Iterator[str]) -> None:
    a, b, c, d = next(names), next(names), next(names), next(names)
    route(api, a, b, preserve_tag=False), route(api, b, c, filter=["tag", "Glob", "*"]), route(api, b, d)
    api.post(f"/v0/topics/{a}", {"records": [{"data": 1, "tag": "x"}]})
    assert (read(api, c), read(api, d)) == ([], [1])


def test_what_was_deleted_before_it_was_forwarded_is_silently_not(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    ends = {"source": source, "dest": dest}
    router = route(api, **ends, paused=True)
    api.post(f"/v0/topics/{source}", {"records": [{"data": n, "tag": str(n)} for n in range(1, 7)]})
    api.post(f"/v0/topics/{source}/delete", {"before_seq": 3})
    api.post(f"/v0/topics/{source}/delete", {"match": "4"})
    api.put(f"/v0/routers/{router}", {**ends, "paused": False})
    reply = api.diff(dest).json
    assert ([record["data"] for record in reply["records"]], reply["tombstone"]) == ([3, 5, 6], None)
    assert [record["$seq"] for record in reply["records"]] == [1, 2, 3]


@pytest.mark.guarantee("F1")
def test_what_was_evicted_before_it_was_forwarded_is_told(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, onward = next(names), next(names), next(names)
    api.put(f"/v0/topics/{source}", {"cap_records": 2})
    route(api, source, dest), route(api, dest, onward)
    api.append(source, 1), read(api, onward)
    api.append(source, 2, 3, 4, 5, 6)
    for topic in (dest, onward):
        reply = api.diff(topic, from_seq=1).json
        assert [record["data"] for record in reply["records"]] == [5, 6]
        assert reply["tombstone"] == {
            "gap_from": 2,
            "gap_to": 4,
            "reason": "source_trim",
            "missed_estimate": 3,
            "earliest_seq": 1,
            "head_seq": 6,
        }


@pytest.mark.guarantee("F1")
@pytest.mark.parametrize("start", ["earliest", 0])
def test_losses_from_before_the_router_are_not_reported(api: ApiClient, names: Iterator[str], start: object) -> None:
    source, dest = next(names), next(names)
    api.put(f"/v0/topics/{source}", {"cap_records": 2})
    api.append(source, 1, 2, 3, 4)
    api.put(f"/v0/routers/{dest}", {"source": source, "dest": dest, "from": start})
    reply = api.diff(dest).json
    assert [record["data"] for record in reply["records"]] == [3, 4]
    assert reply["tombstone"] is None


def test_deletes_and_evictions_are_of_one_topic(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, onward = next(names), next(names), next(names)
    route(api, source, dest), route(api, dest, onward)
    api.post(f"/v0/topics/{source}", {"records": [{"data": n, "tag": str(n)} for n in range(1, 9)]})
    read(api, onward)
    api.post(f"/v0/topics/{source}/delete", {"before_seq": 9})
    assert read(api, dest) == list(range(1, 9))
    assert api.post(f"/v0/topics/{dest}/delete", {"match": "4"}).json["deleted"] == 1
    assert api.post(f"/v0/topics/{dest}/delete", {"before_seq": 3}).json["count"] == 5
    assert read(api, dest) == [3, 5, 6, 7, 8]
    api.put(f"/v0/topics/{dest}", {"cap_records": 2})
    reply = api.diff(dest).json
    assert [record["data"] for record in reply["records"]] == [7, 8]
    assert reply["tombstone"]["reason"] == "cap"
    assert read(api, onward) == list(range(1, 9))


def test_a_dest_expires_by_its_own_clock(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    views.append(source, "old")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_record SET ts = ts - 3600000 WHERE topic_id = %s", [id_of(source)])
    views.put(f"/v0/topics/{dest}", {"ttl_ms": 60_000})
    route(views, source, dest, **{"from": "earliest"})
    assert read(views, dest) == ["old"]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_span SET ts = ts - 3600000 WHERE topic_id = %s", [id_of(dest)])
    reply = views.diff(dest).json
    assert (reply["records"], reply["tombstone"]["reason"]) == ([], "ttl")
    assert read(views, source) == ["old"]


def test_a_source_that_is_deleted_leaves_its_dests_whole(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest)
    api.append(source, 1, 2)
    read(api, dest)
    api.delete(f"/v0/topics/{source}")
    assert read(api, dest) == [1, 2]
    api.append(source, "new")
    route(api, source, dest, router, **{"from": "earliest"})
    assert read(api, dest) == [1, 2, "new"]


@pytest.mark.guarantee("F5")
def test_a_full_dest_takes_what_fits_and_the_rest_when_there_is_room(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    views.put(f"/v0/topics/{dest}", {"cap_bytes": 10, "discard": "reject"})
    router = route(views, source, dest)
    views.append(source, "1234", "12", "1", "2")  # 6, 4, 3 and 3 bytes
    assert read(views, dest) == ["1234", "12"]
    assert views.append(dest, "no").code == "topic_full"
    assert cursor_of(router) == 2
    views.post(f"/v0/topics/{dest}/delete", {"before_seq": 2})
    assert read(views, dest) == ["12", "1", "2"]
    assert views.get(f"/v0/routers/{router}").json["state"] == "running"


def test_a_blocked_router_waits_longer_each_time(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    views.put(f"/v0/topics/{dest}", {"cap_records": 1, "discard": "reject"})
    router = route(views, source, dest)
    views.append(source, 1, 2)
    pauses, now = [], now_ms()
    for _ in range(8):
        advance.advance(id_of(source), now)
        row = Router.objects.get(name=router)
        pauses.append(row.retry_ts - now)
        assert advance.advance(id_of(source), row.retry_ts - 1) == []
        now = row.retry_ts
    assert pauses == [100, 200, 400, 800, 1600, 3200, 5000, 5000]
    assert Router.objects.get(name=router).errors_total == 8


def test_a_blocked_router_does_not_wait_for_the_time_of_a_clock_that_was_ahead(
    views: ApiClient, names: Iterator[str]
) -> None:
    source, dest = next(names), next(names)
    views.put(f"/v0/topics/{dest}", {"cap_records": 1, "discard": "reject"})
    router = route(views, source, dest)
    views.append(source, 1, 2)
    advance.advance(id_of(source), now_ms() + 3_600_000)
    assert id_of(source) not in advance.behind(now_ms() + 60_000)
    tasks.sweep()
    row = Router.objects.get(name=router)
    assert (row.state, row.errors_total) == ("blocked", 2)
    assert row.retry_ts <= now_ms() + 5_000


@pytest.mark.django_db(transaction=True)
def test_a_source_whose_dest_is_held_does_not_keep_the_sweep_from_the_others(
    views: ApiClient,
    names: Iterator[str],
    locker: psycopg.Connection[Any],  # noqa: F811
) -> None:
    pairs = [(next(names), next(names)) for _ in range(4)]
    for source, dest in pairs:
        route(views, source, dest)
        views.append(source, 1)
    (held, others) = pairs[0][1], [id_of(dest) for _, dest in pairs[1:]]
    locker.execute("SELECT FROM topics_topichead WHERE topic_id = %s FOR UPDATE", [id_of(held)])
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = 20")

    def swept() -> bool:
        with pytest.raises(NotReady):
            tasks.sweep()
        return list(TopicHead.objects.filter(pk__in=others).values_list("head_seq", flat=True)) == [1, 1, 1]

    until(swept, "the sweep to reach the other sources")


# -- exactly_once


def stamps(api: ApiClient, topic: str) -> list[tuple[int, str]]:
    records = api.diff(topic, limit=1000).json["records"]
    return [(record["meta"]["_topics_router"]["source_seq"], record["data"]) for record in records]


def again(api: ApiClient, router: str) -> None:
    """The router anew, from the beginning."""
    config = api.get(f"/v0/routers/{router}").json
    api.delete(f"/v0/routers/{router}")
    route(api, config["source"], config["dest"], router, guarantee="exactly_once", **{"from": "earliest"})


def test_an_exactly_once_router_stamps_where_a_record_came_from(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest, guarantee="exactly_once")
    views.post(
        f"/v0/topics/{source}", {"records": [{"data": 1}, {"data": 2, "meta": {"a": 1.0}}, {"data": 3, "meta": {}}]}
    )
    id = id_of(source)
    for number, record in enumerate(views.diff(dest).json["records"], 1):
        stamp = record["meta"].pop("_topics_router")
        assert record["meta"] == ({"a": 1.0} if number == 2 else {})
        assert stamp == {
            "router": router,
            "source": source,
            "source_topic_id": id,
            "source_epoch": id,
            "source_seq": number,
            "key": f"{router}:{id}:{number}",
        }


@pytest.mark.guarantee("F2")
def test_an_exactly_once_router_made_anew_brings_nothing_twice(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest, guarantee="exactly_once")
    api.append(source, *range(1, 11))
    whole = [(number, number) for number in range(1, 11)]
    assert stamps(api, dest) == whole
    again(api, router)
    assert stamps(api, dest) == whole
    assert api.get(f"/v0/routers/{router}").json["lag"] == 0


@pytest.mark.guarantee("F2")
def test_a_copy_that_is_gone_is_no_evidence(api: ApiClient, names: Iterator[str]) -> None:
    """Once the floor cuts a span and its front comes anew, two spans begin with the same stamp."""
    source, dest = next(names), next(names)
    router = route(api, source, dest, guarantee="exactly_once")
    api.append(source, *range(1, 11))
    read(api, dest)
    api.post(f"/v0/topics/{dest}/delete", {"before_seq": 5})
    again(api, router)
    assert [seq for seq, _ in stamps(api, dest)] == [5, 6, 7, 8, 9, 10, 1, 2, 3, 4]
    again(api, router)
    assert sorted(seq for seq, _ in stamps(api, dest)) == list(range(1, 11))


def test_a_hole_in_the_dest_is_filled_once(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest, guarantee="exactly_once")
    api.post(f"/v0/topics/{source}", {"records": [{"data": n, "tag": str(n)} for n in range(1, 6)]})
    read(api, dest)
    api.post(f"/v0/topics/{dest}/delete", {"match": "3"})
    for _ in range(2):
        again(api, router)
        assert [seq for seq, _ in stamps(api, dest)] == [1, 2, 4, 5, 3]


def test_a_source_made_anew_is_another_source(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest, guarantee="exactly_once")
    api.append(source, "old")
    read(api, dest)
    api.delete(f"/v0/topics/{source}")
    api.append(source, "new")
    route(api, source, dest, router, guarantee="exactly_once", **{"from": "earliest"})
    assert stamps(api, dest) == [(1, "old"), (2, "new")]


# -- Cycles


def test_losses_end_on_a_cycle_of_empty_topics(views: ApiClient, names: Iterator[str]) -> None:
    """Told to an empty topic a loss lies below the floor at once; there it kept its number, but lost its way."""
    topics = [next(names) for _ in range(3)]
    views.put(f"/v0/topics/{topics[0]}", {"ttl_ms": 60_000})
    routers = [
        route(views, *ends, allow_cycle=True, paused=True)
        for ends in zip(topics, [*topics[1:], topics[0]], strict=True)
    ]
    views.append(topics[0], 1, 2, 3)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_record SET ts = ts - 3600000 WHERE topic_id = %s", [id_of(topics[0])])
    for router, source, dest in zip(routers, topics, [*topics[1:], topics[0]], strict=True):
        views.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "paused": False})
    moves = drain(topics[0])
    assert [(move.topic_id, move.head_seq) for move in moves] == [(id_of(topics[1]), 3), (id_of(topics[2]), 3)]
    for topic, reason in zip(topics, ["ttl", "source_trim", "source_trim"], strict=True):
        reply = views.diff(topic).json
        assert (reply["head_seq"], reply["tombstone"]["reason"], reply["tombstone"]["gap_to"]) == (3, reason, 3)


def test_a_mirror_that_evicts_holds_each_record_once(api: ApiClient, names: Iterator[str]) -> None:
    a, b = next(names), next(names)
    api.put(f"/v0/topics/{b}", {"cap_records": 3})
    route(api, a, b, allow_cycle=True), route(api, b, a, allow_cycle=True)
    for number in range(6):
        api.append(a, f"a{number}"), read(api, b)
        api.append(b, f"b{number}"), read(api, a)
    assert sorted(read(api, a)) == sorted(f"{side}{number}" for side in "ab" for number in range(6))
    assert len(read(api, b)) == 3


@pytest.mark.guarantee("F3")
def test_a_record_that_was_deleted_does_not_come_back_over_a_cycle(views: ApiClient, names: Iterator[str]) -> None:
    a, b, c = next(names), next(names), next(names)
    for source, dest in ((a, b), (b, c), (c, a), (b, a), (c, b), (a, c)):
        route(views, source, dest, allow_cycle=True, allow_fan_in=True)
    views.post(f"/v0/topics/{a}", {"records": [{"data": 1, "tag": "x"}]})
    step(a, 10)
    for topic in (a, b):
        assert views.post(f"/v0/topics/{topic}/delete", {"match": "x"}).json["deleted"] == 1
    assert [read(views, topic) for topic in (a, b, c)] == [[], [], [1]]


# -- Steps


def test_a_step_examines_at_most_so_many_seqs_of_all_routers_together(views: ApiClient, names: Iterator[str]) -> None:
    """A hundred filtered routers must not hold a hundred dests for as long as a hundred steps take."""
    source, dests = next(names), [next(names) for _ in range(4)]
    routers = [route(views, source, dest, filter="x") for dest in dests]
    views.append(source, *range(6))
    seen = []
    while [cursor_of(router) for router in routers] != [6] * 4:
        step(source, 4)
        seen.append([cursor_of(router) for router in routers])
    assert seen == [[4, 0, 0, 0], [6, 2, 0, 0], [6, 6, 0, 0], [6, 6, 4, 0], [6, 6, 6, 2], [6, 6, 6, 6]]


def test_one_routers_trouble_is_not_its_neighbours(views: ApiClient, names: Iterator[str]) -> None:
    source, bad, good = next(names), next(names), next(names)
    troubled, fine = route(views, source, bad, filter="x"), route(views, source, good, filter="x")
    TopicHead.objects.filter(topic__name=bad).update(head_seq=2**63 - 1, floor_seq=2**63 - 1)
    views.post(f"/v0/topics/{source}", {"records": [{"data": 1, "tag": "x"}]})
    drain(source)
    assert read(views, good) == [1]
    answer = views.get(f"/v0/routers/{troubled}").json
    assert (answer["state"], answer["last_error"], answer["cursor"]) == ("blocked", "bigint out of range", 0)
    assert views.get(f"/v0/routers/{fine}").json["state"] == "running"


@pytest.mark.parametrize(
    ("code", "told"),
    [("40001", NotReady), ("40P01", NotReady), ("55P03", NotReady), ("57014", NotReady), ("53100", StorageFull)],
)
def test_what_befalls_the_transaction_is_no_routers_fault(
    views: ApiClient, names: Iterator[str], code: str, told: type[TopicsError]
) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest, filter="x")
    views.post(f"/v0/topics/{source}", {"records": [{"data": 1, "tag": "x"}]})
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$BEGIN RAISE SQLSTATE '{code}' USING MESSAGE = 'as if'; END$$;"
            "CREATE TRIGGER fail BEFORE INSERT ON topics_span FOR EACH ROW EXECUTE FUNCTION fail()"
        )
    with pytest.raises(told) as raised, transaction.atomic():
        advance.advance(id_of(source), now_ms())
    assert "as if" in str(raised.value.__cause__)
    row = Router.objects.get(name=router)
    assert (row.state, row.errors_total) == ("running", 0)


def test_farthest_first_orders_deep_chains_and_cycles() -> None:
    deep = [(number, number + 1) for number in range(5000)]
    assert advance.farthest_first(5000, deep[::-1]) == deep
    ring = advance.farthest_first(1, [(1, 2), (2, 3), (3, 1)])
    assert ring == [(1, 2), (2, 3), (3, 1)]
    diamond = advance.farthest_first(4, [(1, 2), (1, 3), (2, 4), (3, 4)])
    assert sorted(diamond[:2]) == [(1, 2), (1, 3)]
    assert sorted(diamond[2:]) == [(2, 4), (3, 4)]


def test_a_million_records_from_the_beginning_at_once(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    views.put(f"/v0/topics/{source}")
    million = 1_000_000
    fill(id_of(source), million)
    route(views, source, dest, **{"from": "earliest"})
    reply = views.diff(dest, limit=1).json
    assert (reply["head_seq"], reply["earliest_seq"], reply["records"][0]["data"]) == (million, 1, 1)
    assert Span.objects.filter(topic_id=id_of(dest)).count() == 10
    (last,) = views.diff(dest, from_seq=million - 1).json["records"]
    assert (last["$seq"], last["data"]) == (million, million)
    state = views.get(f"/v0/topics/{dest}").json
    assert (state["count"], state["bytes"]) == (million, 7 * million)


def test_a_filter_over_many_steps(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    views.put(f"/v0/topics/{source}")
    fill(id_of(source), 3 * advance.STEP)
    route(views, source, dest, filter="rare", **{"from": "earliest"})
    assert read(views, dest) == [10_000, 20_000, 30_000]


def fill(topic_id: int, records: int) -> None:
    """As appends would, in one statement: numbers padded to seven bytes, every 10,000th tagged."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, tag, data)
            SELECT %s, n, %s, n * 7, 7, CASE WHEN n %% 10000 = 0 THEN 'rare' END, rpad(n::text, 7)::json
              FROM generate_series(1, %s) n
            """,
            [topic_id, now_ms(), records],
        )
        cursor.execute(
            "UPDATE topics_topichead SET head_seq = %s, count = %s, bytes = %s, total = %s, last_ts = %s WHERE topic_id = %s",
            [records, records, 7 * records, 7 * records, now_ms(), topic_id],
        )
