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

from base.errors import HeadMismatch, IdempotencyMismatch, InvalidRequest, TopicFull, TopicSealed
from store import loop
from store.script import run
from tests import steps
from tests.examples import examples
from tests.log.test_batch import lock, locker  # noqa: F401  # a fixture
from tests.log.test_delete import NOW, head, read
from tests.scripts import look_up, put_topic
from tests.steps import each_of
from topics.append.judged import AtHead, Judged
from topics.append.records import Append, NewRecord, check_rows
from topics.append.statements import MOST_RECORDS, Appended
from topics.cache import CachedTopic, forget_all
from topics.config import Config
from topics.models import IdempotencyKey

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


def under(
    topic: CachedTopic, key: str | None = None, head: int | None = None, records: int = 1, data: bytes = b'"x"'
) -> AtHead:
    wanted = Append([NewRecord(msgspec.Raw(data))] * records, idempotency_key=key, expected_head=head)
    kind = AtHead if key is None and head is not None and not topic.judges else Judged
    return kind(topic, wanted, check_rows(wanted), NOW)


def together(*appends: AtHead) -> list[Outcome]:
    """What comes of them, when they arrive while another append, to a topic of its own, is under way."""
    put_topic("busy", Config(durability=appends[0].topic.durability), NOW)
    return steps.together(under(look_up("busy"), "first"), *appends)


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
    done = together(under(t, "a", records=2), under(other, "a"), under(t, "b"), under(t, "c", records=3))
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
    run(under(t, "a").alone())
    done = together(under(t, "b"), under(t, "a", records=5), under(other, head=7), under(t, "c"), under(other, "c"))
    assert seqs(done) == [(2, 2), None, None, (3, 3), (1, 1)]
    assert isinstance(done[1], IdempotencyMismatch)
    assert (head("t").count, head("other").count) == (3, 1)


def test_of_those_that_name_one_key_or_expect_one_head_one_is_done() -> None:
    t, other = look_up("t"), look_up("other")
    done = together(*[under(t, "a") for _ in range(4)], *[under(other, head=0) for _ in range(4)])
    assert seqs(done[:4]) == [(1, 1)] * 4
    assert sorted(each.deduped for each in done[:4] if isinstance(each, Appended)) == [False, True, True, True]
    assert sum(each is not None for each in done[4:]) == 1  # the others are judged next, and told why
    assert (head("t").count, head("other").count, keys(t)) == (1, 1, {"a": (1, 1)})


def test_a_topic_that_was_configured_anew_is_looked_up_again() -> None:
    old, other = look_up("t"), look_up("other")
    put_topic("t", Config(cap_records=1), NOW)
    assert seqs(together(under(old, "a"), under(other, "a"))) == [None, (1, 1)]
    assert read("t") == ([], 0)


def test_a_capped_topic_evicts_in_the_same_transaction() -> None:
    put_topic("t", Config(cap_records=2), NOW)
    t, other = look_up("t"), look_up("other")
    together(under(t, "a", records=2), under(other, "a"), under(t, "b", records=2))
    assert (head("t").floor_seq, head("t").count, head("other").count) == (2, 2, 1)


def test_a_locked_head_holds_up_no_other_topic(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    t, other = look_up("t"), look_up("other")
    lock(locker, t)
    put_topic("busy", Config(), NOW)
    busy = under(look_up("busy"), "first")

    async def main() -> list[Outcome]:
        try:
            first = asyncio.ensure_future(each_of(busy))
            await asyncio.sleep(0)
            held = asyncio.ensure_future(each_of(under(t, "a")))
            passed = await each_of(under(other, "a"))
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
            held = [asyncio.ensure_future(each_of(under(t, "a")))]
            await asyncio.sleep(0)
            passed = [await each_of(under(other, "a"))]
            held.append(asyncio.ensure_future(each_of(under(t, "b"))))
            passed.append(await each_of(under(other, "b")))
            assert not any(each.done() for each in held)
            locker.rollback()
            return [*passed, *await asyncio.gather(*held)]
        finally:
            await loop.close()

    done = seqs(asyncio.run(main()))
    assert (done[:2], sorted(done[2:])) == ([(1, 1), (2, 2)], [(1, 1), (2, 2)])  # type: ignore[type-var]


def test_what_is_wrong_with_one_is_no_others_trouble() -> None:
    t, other = look_up("t"), look_up("other")
    broken = under(t, "broken")
    broken.rows = broken.rows._replace(data=[None])  # type: ignore[list-item]
    no_json = under(t, "no json", data=b"[" * 7)  # PostgreSQL says so
    assert [type(each) for each in together(broken, under(other, "a"))] == [TypeError, Appended]
    assert [type(each) for each in together(no_json, under(other, "b"))] == [InvalidRequest, Appended]
    assert (keys(t), keys(other)) == ({}, {"a": (1, 1), "b": (2, 2)})


def test_more_records_than_a_transaction_carries_go_in_several() -> None:
    t = look_up("t")
    done = together(*[under(t, f"{n}", records=MOST_RECORDS // 2) for n in range(4)])
    assert sorted(each.first_seq for each in done if isinstance(each, Appended)) == [
        1 + n * (MOST_RECORDS // 2) for n in range(4)
    ]


def test_a_topic_that_rejects_or_is_sealed_refuses_no_append_of_others() -> None:
    put_topic("t", Config(discard="reject", cap_records=2), NOW)
    put_topic("other", Config(sealed=True), NOW)
    put_topic("plain", Config(), NOW)
    t, other, plain = look_up("t"), look_up("other"), look_up("plain")
    done = together(under(t, records=3), under(t, "a", records=2), under(t), under(other, "a"), under(plain, "a"))
    assert [type(each) for each in done] == [TopicFull, Appended, type(None), TopicSealed, Appended]
    assert isinstance(
        together(under(t))[0], TopicFull
    )  # the third append was to be sent again: it had room without the second
    assert (head("t").count, head("other").count, keys(t), keys(other)) == (2, 0, {"a": (1, 2)}, {})


def test_expired_records_make_room_in_a_topic_that_rejects() -> None:
    put_topic("t", Config(discard="reject", cap_records=2, ttl_ms=1000), NOW)
    t = look_up("t")
    assert seqs([run(under(t, "old", records=2).alone())]) == [(1, 2)]
    later = under(t, "a", records=2)
    later.now += 2000
    assert seqs([run(later.alone())]) == [(3, 4)]
    assert (head("t").floor_seq, head("t").count) == (2, 2)


def named(topic: CachedTopic, *keys: str | None, head: int | None = None, data: bytes = b'"x"') -> Judged:
    """An append with a key for each record, or None."""
    wanted = Append([NewRecord(msgspec.Raw(data)) for _ in keys], idempotency_keys=list(keys), expected_head=head)
    return Judged(topic, wanted, check_rows(wanted), NOW)


def all_seqs(done: list[Outcome]) -> list[Any]:
    return [each.seqs if isinstance(each, Appended) else type(each) for each in done]


def test_keys_of_records_share_a_call_with_other_appends() -> None:
    t, other = look_up("t"), look_up("other")
    run(named(t, "a", "b").alone())
    done = together(
        named(t, "b", "c", None, "a", "d"),
        under(t, "e", records=2),
        named(other, "a"),
        under(other),
        named(t, "b", "a"),
    )
    assert all_seqs(done) == [[2, 3, 4, 1, 5], [6, 7], [1], [2], [2, 1]]
    assert [each.deduped for each in done if isinstance(each, Appended)] == [False, False, False, False, True]
    assert keys(t) == {"a": (1, 1), "b": (2, 2), "c": (3, 3), "d": (5, 5), "e": (6, 7)}
    assert (head("t").count, head("t").bytes, head("t").total) == (7, 21, 21)
    assert read("t") == ([1, 2, 3, 4, 5, 6, 7], 7)


def test_a_key_names_a_record_and_an_append_of_one_record_alike() -> None:
    t = look_up("t")
    run(under(t, "one").alone())
    run(under(t, "two", records=2).alone())
    run(named(t, "three").alone())
    done = [named(t, "one", "new"), named(t, "new", "two"), under(t, "three"), under(t, "three", records=2)]
    assert all_seqs(together(*done)) == [[1, 5], IdempotencyMismatch, [4], IdempotencyMismatch]
    assert (head("t").head_seq, head("t").count) == (5, 5)


def test_of_appends_that_share_a_key_of_a_record_the_second_finds_it() -> None:
    t = look_up("t")
    done = together(named(t, "a", "b"), named(t, "b", "c"), under(t, "c"), named(t, "d", "a"))
    assert all_seqs(done) == [[1, 2], [2, 3], [3], [4, 1]]


def test_conditions_are_judged_for_the_records_that_are_not_known() -> None:
    put_topic("full", Config(discard="reject", cap_records=3, cap_bytes=9), NOW)
    full = look_up("full")
    run(named(full, "a", "b").alone())
    done = together(named(full, "c", "a", "b"), named(full, "a", "b", "c", "d"), named(full, "b", "a"))
    assert all_seqs(done) == [[3, 1, 2], TopicFull, [2, 1]]
    t = look_up("t")
    run(named(t, "a").alone())
    assert all_seqs(together(named(t, "a", head=7))) == [[1]]
    assert all_seqs(together(named(t, "a", "b", head=7))) == [HeadMismatch]
    assert all_seqs(together(named(t, "a", "b", head=1))) == [[1, 2]]
    put_topic("t", Config(sealed=True), NOW)
    sealed = look_up("t")
    done = together(named(sealed, "b", "a"), named(sealed, "a", "c"), named(sealed, "a", data=b'"y"'))
    assert all_seqs(done) == [[2, 1], TopicSealed, IdempotencyMismatch]


def test_a_key_of_a_record_is_forgotten_after_the_window() -> None:
    t = look_up("t")
    run(named(t, "a", "b").alone())
    later = named(t, "a", "c")
    later.now += 120_000
    assert all_seqs([run(later.alone())]) == [[3, 4]]
    assert keys(t) == {"a": (3, 3), "b": (2, 2), "c": (4, 4)}


CAP = 6  # records of the topic "full"
APPENDS = st.lists(
    st.tuples(
        st.sampled_from(["t", "other", "full"]),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, None, 0, 1, 2]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(8))
@given(st.lists(APPENDS, min_size=1, max_size=3))
def test_whatever_comes_together(rounds: list[list[tuple[str, str | None, int | None, int]]]) -> None:
    """Seqs without a hole or an overlap; each key once; no expectation met twice; each refusal with its reason."""
    anew()
    put_topic("full", Config(discard="reject", cap_records=CAP), NOW)
    topics = {name: look_up(name) for name in ("t", "other", "full")}
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in topics}
    named: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in topics}
    for appends in rounds:
        before = {name: sum(last - first + 1 for first, last in spans[name]) for name in topics}
        done = together(*[under(topics[name], key, head, records) for name, key, head, records in appends])
        for (name, key, expected, records), each in zip(appends, done, strict=True):
            if isinstance(each, Appended) and not each.deduped:
                assert each.last_seq - each.first_seq + 1 == records
                assert expected in (None, each.first_seq - 1)
                spans[name].append((each.first_seq, each.last_seq))
                if key is not None:
                    assert key not in named[name]
                    named[name][key] = (each.first_seq, each.last_seq)
        for (name, key, expected, records), each in zip(appends, done, strict=True):
            first, last = named[name].get(key or "", (0, -1))
            if isinstance(each, Appended):
                assert not each.deduped or (
                    (each.first_seq, each.last_seq) == (first, last) and last - first + 1 == records
                )
            elif isinstance(each, IdempotencyMismatch):
                assert 0 < last - first + 1 != records
            elif isinstance(each, HeadMismatch):
                assert each.detail["head_seq"] != expected
            elif isinstance(each, TopicFull):
                assert name == "full"
                assert head(name).count + records > CAP
            elif name == "full":
                assert each is None  # the append is to be sent again: others of its batch took the room
                assert head(name).count + records > CAP
            else:  # AtHead leaves the reason to Judged
                assert each is None
                assert key is None
                assert expected is not None
                assert expected != before[name] or len([a for a in appends if a[0] == name]) > 1
    for name, topic in topics.items():
        taken = [seq for first, last in sorted(spans[name]) for seq in range(first, last + 1)]
        assert taken == list(range(1, len(taken) + 1)) == list(range(1, head(name).head_seq + 1))
        assert keys(topic) == named[name]
