"""Simultaneous transactions of an event loop share a round trip, and each is one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from base.errors import InvalidRequest, NotReady
from store.connection import Connection
from store.loop import Loop
from store.script import Done, Script, Statement, Whole, run

pytestmark = pytest.mark.django_db(transaction=True)
NOTE = "INSERT INTO topics_deletedtopic (id, name, deleted_ts) VALUES (%s, %s, 0)"
SLOW, WRONG = Statement("SELECT pg_sleep(0.2)"), Statement("SELECT 1 / %s::bigint", (0,))
QUICK = Statement("SELECT 1::bigint")


def note(number: int) -> Statement:
    return Statement(NOTE, (number, f"n{number}"))


def noted() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM topics_deletedtopic ORDER BY id")
        return [id for (id,) in cursor.fetchall()]


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many transactions each round trip carried."""
    sizes: list[int] = []
    each = Connection.each

    async def counted(self: Connection, transactions: Any) -> Any:
        sizes.append(len(transactions))
        return await each(self, transactions)

    monkeypatch.setattr(Connection, "each", counted)
    return sizes


def in_a_loop(work: Any) -> Any:
    async def main() -> Any:
        loop = Loop()
        loop.writes.idle = 1  # so that the second already waits
        try:
            return await work(loop)
        finally:
            await loop.close()

    return asyncio.run(main())


def behind(loop: Loop, *wholes: Whole) -> Coroutine[Any, Any, list[Any]]:
    """What comes of these, which arrive while the only connection is busy."""

    async def work() -> list[Any]:
        first = asyncio.ensure_future(loop.writes.ask(Whole([SLOW])))
        await asyncio.sleep(0)
        found = await asyncio.gather(*(loop.writes.ask(each) for each in wholes), return_exceptions=True)
        await first
        return found

    return work()


def test_those_that_wait_go_out_together_and_wait_for_the_disk_once(round_trips: list[int]) -> None:
    found = in_a_loop(lambda loop: behind(loop, *(Whole([note(n), QUICK]) for n in range(3))))
    assert [len(done.rows) for done in found] == [2, 2, 2]
    assert noted() == [0, 1, 2]
    assert round_trips == [2, 4]  # each time with one more, which waits for the disk


def test_one_that_fails_is_undone_whole_and_alone() -> None:
    wrong = Whole([note(2), WRONG, note(3)])
    good, bad, other = in_a_loop(lambda loop: behind(loop, Whole([note(1)]), wrong, Whole([note(4)])))
    assert isinstance(good, Done)
    assert isinstance(other, Done)
    assert isinstance(bad, InvalidRequest)
    assert noted() == [1, 4]


def test_an_argument_that_cannot_be_sent_is_nothing_to_the_others() -> None:
    nul = Whole([Statement(NOTE, (1, "a\0b"))])
    bad, good = in_a_loop(lambda loop: behind(loop, nul, Whole([note(2)])))
    assert isinstance(bad, InvalidRequest)
    assert isinstance(good, Done)
    assert noted() == [2]


def test_one_that_meets_a_lock_waits_and_lets_the_others_by() -> None:
    """The row that it wants is held until the other is done, which would never be if they waited for each other."""
    with connection.cursor() as cursor:
        cursor.execute(NOTE, [1, "held"])
    take = Whole([Statement("UPDATE topics_deletedtopic SET name = 'taken' WHERE id = 1")])

    async def work(loop: Loop) -> list[Any]:
        holder = await psycopg.AsyncConnection.connect(**parameters())
        await holder.execute("SELECT FROM topics_deletedtopic WHERE id = 1 FOR UPDATE")
        waiting = asyncio.ensure_future(behind(loop, take))
        await asyncio.sleep(0)
        other = await loop.writes.ask(Whole([note(2)]))
        assert not waiting.done()
        await holder.commit()
        await holder.close()
        return [other, *(await waiting)]

    other, taken = in_a_loop(work)
    assert isinstance(other, Done)
    assert isinstance(taken, Done)
    assert noted() == [1, 2]


def parameters() -> dict[str, Any]:
    wanted = ("host", "port", "dbname", "user", "password")
    return {name: value for name, value in connection.get_connection_params().items() if name in wanted}


def test_a_connection_that_ends_leaves_nobody_waiting_and_nothing_done_twice() -> None:
    """Nobody knows what was committed then, so it is told, and not sent again."""

    async def work(loop: Loop) -> list[Any]:
        (((backend,),),) = (await loop.writes.ask(Whole([Statement("SELECT pg_backend_pid()::bigint")]))).rows
        waiting = asyncio.ensure_future(behind(loop, Whole([note(1), SLOW]), Whole([note(2), SLOW])))
        await asyncio.sleep(0.3)  # the first of them is under way
        await loop.readers.execute("SELECT pg_terminate_backend(%s)", (backend,))
        return await waiting

    found = in_a_loop(work)
    assert all(isinstance(each, NotReady) for each in found)
    assert noted() in ([], [1])
    assert in_a_loop(lambda loop: loop.writes.ask(Whole([note(3)]))).rows == [[]]


def test_a_thread_does_the_same() -> None:
    def script(whole: Whole) -> Script[Done]:
        return (yield whole)

    assert run(script(Whole([note(1), QUICK]))).rows == [[], [(1,)]]
    with pytest.raises(InvalidRequest):
        run(script(Whole([note(2), WRONG])))
    with transaction.atomic():
        run(script(Whole([note(3)])))
        transaction.set_rollback(True)
    assert noted() == [1]
