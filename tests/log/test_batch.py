"""Appends that share a transaction: none is held up, or ended, by what befalls another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from django.db import connection

from base.errors import InvalidRequest, NotReady
from store import loop
from tests.log.test_delete import NOW, head, read, write
from tests.scripts import look_up, put_topic
from topics.append.plain import Write
from topics.append.records import Append, NewRecord, Rows, check_rows
from topics.append.statements import Appended
from topics.cache import CachedTopic, forget_all
from topics.config import Config

pytestmark = pytest.mark.django_db(transaction=True)
Ask = Callable[[CachedTopic, Rows], Awaitable[Appended | None]]
Work = Callable[[Ask], Awaitable[Any]]


@pytest.fixture(autouse=True)
def _topics() -> Iterator[None]:
    forget_all()
    for name in ("t", "other"):
        put_topic(name, Config(), NOW)
    yield
    forget_all()


def one_record(data: bytes = b'"x"') -> Rows:
    return check_rows(Append([NewRecord(msgspec.Raw(data))]))


def run(work: Work) -> Any:
    def ask(topic: CachedTopic, rows: Rows) -> Awaitable[Appended | None]:
        return loop.here().coalescer.ask(Write(topic, rows, NOW))

    async def main() -> Any:
        try:
            return await asyncio.wait_for(work(ask), 60)
        finally:
            await loop.close()

    return asyncio.run(main())


@pytest.fixture
def locker() -> Iterator[psycopg.Connection[Any]]:
    """Another client of PostgreSQL, who may hold a head."""
    options = {
        k: v
        for k, v in connection.get_connection_params().items()
        if k in ("dbname", "user", "password", "host", "port")
    }
    with psycopg.connect(**options) as other:
        yield other


def lock(locker: psycopg.Connection[Any], topic: CachedTopic) -> None:
    locker.execute("SELECT FROM topics_topichead WHERE topic_id = %s FOR UPDATE", [topic.id])


async def together(ask: Ask, *appends: tuple[CachedTopic, Rows]) -> list[Appended | BaseException | None]:
    return await asyncio.gather(*(ask(*each) for each in appends), return_exceptions=True)


@pytest.mark.parametrize("durability", ["disk", "fsync", "memory"])
def test_simultaneous_appends_get_seqs_in_order(durability: str) -> None:
    put_topic("t", Config(durability=durability), NOW)
    t = look_up("t")
    done = run(lambda ask: together(ask, *[(t, one_record()) for _ in range(5)]))
    assert [each.first_seq for each in done] == [1, 2, 3, 4, 5]
    assert read("t") == ([1, 2, 3, 4, 5], 5)


@pytest.mark.parametrize("durability", ["disk", "fsync", "memory"])
def test_a_capped_topic_evicts_in_the_same_transaction(durability: str) -> None:
    put_topic("t", Config(durability=durability, cap_records=2), NOW)
    put_topic("other", Config(durability=durability), NOW)
    t, other = look_up("t"), look_up("other")
    done = run(lambda ask: together(ask, *[(each, one_record()) for each in (t, other, t, t)]))
    assert [each.last_seq for each in done] == [1, 1, 2, 3]
    assert (head("t").floor_seq, head("t").count, head("other").count) == (1, 2, 1)


def test_a_topic_that_was_configured_anew_is_not_trimmed_by_its_old_cap() -> None:
    put_topic("t", Config(cap_records=1), NOW)
    old, other = look_up("t"), look_up("other")
    put_topic("t", Config(cap_records=0), NOW)
    write("t", *"abc")
    done = run(lambda ask: together(ask, (old, one_record()), (other, one_record())))
    assert [done[0], done[1].first_seq] == [None, 1]
    assert read("t") == ([1, 2, 3], 3)


@pytest.mark.guarantee("S1")
def test_a_locked_head_holds_up_no_other_topic(locker: psycopg.Connection[Any]) -> None:
    t, other = look_up("t"), look_up("other")
    lock(locker, t)

    async def work(ask: Ask) -> list[Appended]:
        waiting = [ask(t, one_record()) for _ in range(3)]
        for n in range(1, 11):
            assert (await ask(other, one_record())).first_seq == n  # type: ignore[union-attr]
        waiting.append(ask(t, one_record()))
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        locker.rollback()
        return [done for done in await asyncio.gather(*waiting) if done]

    assert sorted(each.first_seq for each in run(work)) == [1, 2, 3, 4]
    assert read("t") == ([1, 2, 3, 4], 4)
    assert read("other")[1] == 10


def test_a_head_that_stays_locked_is_503_in_the_end(locker: psycopg.Connection[Any], settings: Any) -> None:
    settings.TOPICS_LOCK_TIMEOUT_MS = 300
    t = look_up("t")
    lock(locker, t)

    async def work(ask: Ask) -> None:
        for refused in await together(ask, (t, one_record()), (t, one_record())):
            assert isinstance(refused, NotReady)
        locker.rollback()
        assert (await ask(t, one_record())).first_seq == 1  # type: ignore[union-attr]
        lanes = loop.here().coalescer.lanes.values()
        assert all(lane.lock is None for lane in lanes)

    run(work)
    assert read("t") == ([1], 1)


def test_more_locked_heads_than_there_are_places_end_in_time(locker: psycopg.Connection[Any], settings: Any) -> None:
    settings.TOPICS_LOCK_TIMEOUT_MS = 300
    names = [f"locked{n}" for n in range(12)]
    for name in names:
        put_topic(name, Config(), NOW)
        lock(locker, look_up(name))
    appends = [(look_up(name), one_record()) for name in (*names, "other")]
    *refused, done = run(lambda ask: together(ask, *appends))
    assert [type(each) for each in refused] == [NotReady] * 12
    assert isinstance(done, Appended)


def test_what_is_wrong_with_one_append_is_no_other_appends_trouble() -> None:
    t, other = look_up("t"), look_up("other")
    broken = one_record()._replace(data=[None])  # type: ignore[list-item]
    refused = one_record(b"[" * 7)  # no JSON: PostgreSQL says so
    done = run(lambda ask: together(ask, (t, broken), (other, one_record()), (t, refused), (t, one_record())))
    assert [type(done[0]), type(done[2])] == [TypeError, InvalidRequest]
    assert [done[1].first_seq, done[3].first_seq, read("t")[1]] == [1, 1, 1]
