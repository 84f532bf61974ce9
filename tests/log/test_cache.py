"""The cache of topics is bounded and keeps the latest version, and simultaneous requests share a look-up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from django.db import connections
from msgspec.structs import replace

from store import loop
from store.connection import Connection
from tests.log.test_delete import NOW
from tests.scripts import put_topic
from tests.steps import in_a_loop
from topics import cache
from topics.append.appending import append
from topics.append.records import Append, NewRecord, check_rows
from topics.append.statements import Appended
from topics.config import Config, new_topic
from topics.config import put_topic as configure


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    cache.forget_all()
    yield
    cache.forget_all()


def test_the_half_that_was_remembered_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST", 4)
    for id in range(1, 8):
        cache.keep(new_topic(id, f"t{id}", {}, 0))
        assert cache.cached(f"t{id}") is not None
    assert [id for id in range(1, 8) if cache.cached(f"t{id}")] == [5, 6, 7]


@pytest.fixture
def look_ups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the topics that the process looked up."""
    names: list[str] = []
    execute, together = Connection.execute, Connection.together

    async def executed(self: Connection, sql: str, arguments: Any = ()) -> Any:
        names.extend(arguments if sql == cache.LOOKUP else ())
        return await execute(self, sql, arguments)

    async def sent(self: Connection, statements: Any) -> Any:
        names.extend(name for sql, arguments in statements if sql == cache.LOOKUP for name in arguments)
        return await together(self, statements)

    monkeypatch.setattr(Connection, "execute", executed)
    monkeypatch.setattr(Connection, "together", sent)
    return names


def appending(name: str, **wanted: Any) -> asyncio.Future[Appended]:
    asked = Append([NewRecord(msgspec.Raw(b'"x"'))], **wanted)
    return asyncio.ensure_future(loop.here().drive(append(name, asked, check_rows(asked), NOW)))


@pytest.mark.django_db(transaction=True)
def test_a_hundred_appends_to_a_topic_that_the_process_does_not_know_look_it_up_once(look_ups: list[str]) -> None:
    put_topic("t", Config(), NOW)
    cache.forget_all()

    async def work() -> None:
        appends = []
        for _ in range(100):  # over many turns of the loop, so that some arrive during the look-up
            appends.append(appending("t"))
            await asyncio.sleep(0)
        assert sorted(done.first_seq for done in await asyncio.gather(*appends)) == list(range(1, 101))

    in_a_loop(work)
    assert look_ups == ["t"]


@pytest.mark.django_db(transaction=True)
def test_a_hundred_appends_that_make_a_topic_look_it_up_once(look_ups: list[str]) -> None:
    async def work() -> None:
        done = await asyncio.gather(*(appending("new") for _ in range(100)))
        assert sorted(each.first_seq for each in done) == list(range(1, 101))

    in_a_loop(work)
    assert look_ups == ["new"]


@pytest.mark.django_db(transaction=True)
def test_a_put_under_load_causes_one_look_up(look_ups: list[str]) -> None:
    put_topic("t", Config(), NOW)
    cache.forget_all()
    go_on = True

    async def client(**wanted: Any) -> None:
        while go_on:
            await appending("t", **wanted)

    async def work() -> None:
        nonlocal go_on
        clients = [asyncio.ensure_future(client()) for _ in range(100)]
        await appending("t")
        for cap in range(1, 6):
            look_ups.clear()
            await loop.here().drive(configure("t", Config(cap_records=cap), NOW))
            for _ in range(3):
                await appending("t")
            assert look_ups == ["t"]
        go_on = False
        await asyncio.gather(*clients)

    in_a_loop(work)


@pytest.mark.django_db(transaction=True)
def test_a_topic_that_is_made_during_a_look_up_is_found_by_requests_that_came_later(look_ups: list[str]) -> None:
    """A look-up that began before the topic was made finds nothing. That is no answer for a request that came after."""

    async def work() -> Appended:
        early = asyncio.ensure_future(appending("t", create=False))
        while not look_ups:
            await asyncio.sleep(0)
        await asyncio.to_thread(make)
        late = await appending("t", create=False)
        await asyncio.gather(early, return_exceptions=True)
        return late

    def make() -> None:
        put_topic("t", Config(), NOW)
        cache.forget_all()
        connections.close_all()

    assert in_a_loop(work).first_seq in (1, 2)


def test_the_newer_of_two_versions_is_kept_and_only_an_outdated_one_forgotten() -> None:
    old = cache.keep(new_topic(1, "t", {}, 0))
    assert cache.keep(replace(old)) is old
    new = cache.keep(replace(old, version=old.version + 1))
    assert cache.keep(old) is new
    cache.forget_known(old)
    cache.forget_known(None)
    assert cache.cached("t") is new
    cache.forget_known(new)
    assert cache.cached("t") is None
    assert cache.keep(old) is old
    again = replace(old, id=2)
    assert cache.keep(again) is again
