"""Appends under a condition that share a transaction: each is done or not by its own condition alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import InvalidRequest
from store import loop
from store.script import run
from tests import steps
from tests.log.test_batch import lock, locker  # noqa: F401  # a fixture
from tests.log.test_delete import NOW, head, read
from tests.scripts import look_up, put_topic
from tests.steps import each_of
from topics.cache import CachedTopic, forget_all
from topics.conditional import AtHead, Unless
from topics.config import Config
from topics.insert import MOST_RECORDS, Appended
from topics.models import IdempotencyKey
from topics.records import Append, NewRecord, check_rows

pytestmark = pytest.mark.django_db(transaction=True)
Outcome = Appended | BaseException | None


@pytest.fixture(autouse=True)
def _topics() -> Iterator[None]:
    anew()
    yield
    forget_all()


def anew() -> None:
    """Two empty topics."""
    forget_all()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE topics_topic, topics_topichead, topics_record, topics_idempotencykey CASCADE")
    for name in ("t", "other"):
        put_topic(name, Config(), NOW)


def unless(
    topic: CachedTopic, key: str | None = None, head: int | None = None, records: int = 1, data: bytes = b'"x"'
) -> Unless:
    wanted = Append([NewRecord(msgspec.Raw(data))] * records, idempotency_key=key, expected_head=head)
    kind = AtHead if key is None and head is not None else Unless
    return kind(topic, wanted, check_rows(wanted), NOW)


def together(*appends: Unless) -> list[Outcome]:
    """What comes of them, when they arrive while another append, to a topic of its own, is under way."""
    put_topic("busy", Config(durability=appends[0].topic.durability), NOW)
    return steps.together(unless(look_up("busy"), "first"), *appends)


def seqs(done: list[Outcome]) -> list[tuple[int, int] | None]:
    return [(each.first_seq, each.last_seq) if isinstance(each, Appended) else None for each in done]


def keys(topic: CachedTopic) -> dict[str, tuple[int, int]]:
    kept = IdempotencyKey.objects.filter(topic_id=topic.id)
    return {key: (first, last) for key, first, last in kept.values_list("key", "first_seq", "last_seq")}


@pytest.mark.parametrize("durability", ["disk", "fsync", "memory"])
def test_each_gets_its_seqs_and_leaves_its_key(durability: str) -> None:
    for name in ("t", "other"):
        put_topic(name, Config(durability=durability), NOW)
    t, other = look_up("t"), look_up("other")
    done = together(unless(t, "a", records=2), unless(other, "a"), unless(t, "b"), unless(t, "c", records=3))
    assert seqs(done) == [(1, 2), (1, 1), (3, 3), (4, 6)]
    assert (keys(t), keys(other)) == ({"a": (1, 2), "b": (3, 3), "c": (4, 6)}, {"a": (1, 1)})
    assert read("t") == ([1, 2, 3, 4, 5, 6], 6)
    assert (head("t").count, head("t").bytes, head("t").total) == (6, 18, 18)
    assert transactions(t, other) == 1


def transactions(*topics: CachedTopic) -> int:
    """By how many the heads of these topics were moved last."""
    with connection.cursor() as cursor:
        ids = [topic.id for topic in topics]
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM topics_topichead WHERE topic_id = ANY (%s)", [ids])
        return int(cursor.fetchone()[0])


def test_one_that_does_not_hold_leaves_no_hole() -> None:
    t, other = look_up("t"), look_up("other")
    run(unless(t, "a").alone())
    done = together(
        unless(t, "b"), unless(t, "a", records=5), unless(other, head=7), unless(t, "c"), unless(other, "c")
    )
    assert seqs(done) == [(2, 2), None, None, (3, 3), (1, 1)]
    assert (head("t").count, head("other").count) == (3, 1)


def test_of_those_that_name_one_key_or_expect_one_head_one_is_done() -> None:
    t, other = look_up("t"), look_up("other")
    done = together(*[unless(t, "a") for _ in range(4)], *[unless(other, head=0) for _ in range(4)])
    assert sum(each is not None for each in done[:4]) == sum(each is not None for each in done[4:]) == 1
    assert (head("t").count, head("other").count, keys(t)) == (1, 1, {"a": (1, 1)})


def test_a_topic_that_was_configured_anew_is_looked_up_again() -> None:
    old, other = look_up("t"), look_up("other")
    put_topic("t", Config(cap_records=1), NOW)
    assert seqs(together(unless(old, "a"), unless(other, "a"))) == [None, (1, 1)]
    assert read("t") == ([], 0)


def test_a_capped_topic_evicts_in_the_same_transaction() -> None:
    put_topic("t", Config(cap_records=2), NOW)
    t, other = look_up("t"), look_up("other")
    together(unless(t, "a", records=2), unless(other, "a"), unless(t, "b", records=2))
    assert (head("t").floor_seq, head("t").count, head("other").count) == (2, 2, 1)


def test_a_locked_head_holds_up_no_other_topic(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    t, other = look_up("t"), look_up("other")
    lock(locker, t)
    put_topic("busy", Config(), NOW)
    busy = unless(look_up("busy"), "first")

    async def main() -> list[Outcome]:
        try:
            first = asyncio.ensure_future(each_of(busy))
            await asyncio.sleep(0)
            held = asyncio.ensure_future(each_of(unless(t, "a")))
            passed = await each_of(unless(other, "a"))
            assert not held.done()
            locker.rollback()
            await first
            return [passed, await held]
        finally:
            await loop.close()

    assert seqs(asyncio.run(main())) == [(1, 1), (1, 1)]


def test_one_that_came_alone_to_a_locked_head_holds_up_no_other_topic(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    t, other = look_up("t"), look_up("other")
    lock(locker, t)

    async def main() -> list[Outcome]:
        try:
            held = [asyncio.ensure_future(each_of(unless(t, "a")))]
            await asyncio.sleep(0)
            passed = [await each_of(unless(other, "a"))]
            held.append(asyncio.ensure_future(each_of(unless(t, "b"))))
            passed.append(await each_of(unless(other, "b")))
            assert not any(each.done() for each in held)
            locker.rollback()
            return [*passed, *await asyncio.gather(*held)]
        finally:
            await loop.close()

    done = seqs(asyncio.run(main()))
    assert (done[:2], sorted(done[2:])) == ([(1, 1), (2, 2)], [(1, 1), (2, 2)])  # type: ignore[type-var]


def test_what_is_wrong_with_one_is_no_others_trouble() -> None:
    t, other = look_up("t"), look_up("other")
    broken = unless(t, "broken")
    broken.rows = broken.rows._replace(data=[None])  # type: ignore[list-item]
    no_json = unless(t, "no json", data=b"[" * 7_000)  # PostgreSQL says so
    assert [type(each) for each in together(broken, unless(other, "a"))] == [TypeError, Appended]
    assert [type(each) for each in together(no_json, unless(other, "b"))] == [InvalidRequest, Appended]
    assert (keys(t), keys(other)) == ({}, {"a": (1, 1), "b": (2, 2)})


def test_more_records_than_a_transaction_carries_go_in_several() -> None:
    t = look_up("t")
    done = together(*[unless(t, f"{n}", records=MOST_RECORDS // 2) for n in range(4)])
    assert sorted(each.first_seq for each in done if isinstance(each, Appended)) == [
        1 + n * (MOST_RECORDS // 2) for n in range(4)
    ]


APPENDS = st.lists(
    st.tuples(
        st.sampled_from(["t", "other"]),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, None, 0, 1, 2]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=25)
@given(st.lists(APPENDS, min_size=1, max_size=3))
def test_whatever_comes_together(rounds: list[list[tuple[str, str | None, int | None, int]]]) -> None:
    """Seqs without a hole or an overlap; each key once, and where it says; no expectation met twice."""
    anew()
    topics = {name: look_up(name) for name in ("t", "other")}
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in topics}
    named: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in topics}
    for appends in rounds:
        done = together(*[unless(topics[name], key, head, records) for name, key, head, records in appends])
        for (name, key, expected, records), each in zip(appends, done, strict=True):
            assert not isinstance(each, BaseException)
            if each is None:
                assert expected is not None or key in named[name] or [a[:2] for a in appends].count((name, key)) > 1
                continue
            assert each.last_seq - each.first_seq + 1 == records
            assert expected in (None, each.first_seq - 1)
            spans[name].append((each.first_seq, each.last_seq))
            if key is not None:
                assert key not in named[name]
                named[name][key] = (each.first_seq, each.last_seq)
    for name, topic in topics.items():
        taken = [seq for first, last in sorted(spans[name]) for seq in range(first, last + 1)]
        assert taken == list(range(1, len(taken) + 1)) == list(range(1, head(name).head_seq + 1))
        assert keys(topic) == named[name]
