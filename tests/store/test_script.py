"""A script does the same under both drivers: on a thread's connection, and on those of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from base.errors import InvalidRequest, TopicsError
from store.loop import Loop
from store.script import Pause, Script, Shared, Statement, atomically, run

pytestmark = pytest.mark.django_db(transaction=True)
NOTE = "INSERT INTO topics_deletedtopic (id, name, deleted_ts) VALUES (%s, %s, 0)"
WRONG = "SELECT 1 / %s::bigint"
Drive = Callable[[Script[Any]], Any]


def on_a_loop(script: Script[Any]) -> Any:
    async def work() -> Any:
        loop = Loop()
        try:
            return await loop.drive(script)
        finally:
            await loop.close()

    return asyncio.run(work())


@pytest.fixture(params=[run, on_a_loop], ids=["thread", "loop"])
def drive(request: pytest.FixtureRequest) -> Drive:
    driver: Drive = request.param
    return driver


def noted() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM topics_deletedtopic ORDER BY id")
        return [name for (name,) in cursor.fetchall()]


def write(*names: str, then: Exception | None = None) -> Script[int]:
    for number, name in enumerate(names):
        yield Statement(NOTE, (number, name))
    if then is not None:
        raise then
    return len(names)


def test_it_takes_rows_and_returns_its_result(drive: Drive) -> None:
    def script() -> Script[list[Any]]:
        ((one,),) = yield Statement("SELECT %s::bigint", (1,))
        rows = yield Statement("SELECT %(text)s::text, %(yes)s::boolean", {"text": "ä", "yes": True}, quick=True)
        return [one, *rows]

    assert drive(script()) == [1, ("ä", True)]


def test_a_transaction_is_there_whole(drive: Drive) -> None:
    assert drive(atomically(write("a", "b"))) == 2
    assert noted() == ["a", "b"]


def test_or_not_at_all(drive: Drive) -> None:
    with pytest.raises(ZeroDivisionError):
        drive(atomically(write("a", "b", then=ZeroDivisionError())))
    assert noted() == []


def test_what_postgresql_refuses_is_raised_where_it_was_asked(drive: Drive) -> None:
    def script() -> Script[str]:
        try:
            yield from atomically(refused())
        except TopicsError as error:
            yield Statement(NOTE, (1, "after"))
            return type(error).__name__
        return "nothing"

    def refused() -> Script[None]:
        yield Statement(NOTE, (1, "before"))
        yield Statement(WRONG, (0,))

    assert drive(script()) == InvalidRequest.__name__
    assert noted() == ["after"]


class Doubled(Shared):
    def alone(self) -> Script[int]:
        ((one,),) = yield Statement("SELECT 1::bigint")
        return int(one) * 2

    async def together(self) -> int:
        return 2


class Bell(Pause):
    async def over(self) -> str:
        return "rung"


def test_a_shared_step_comes_to_the_same(drive: Drive) -> None:
    def script() -> Script[Any]:
        return (yield Doubled())

    assert drive(script()) == 2


def waits() -> Script[Any]:
    return (yield Bell())


def test_a_loop_waits_and_a_thread_does_not() -> None:
    assert on_a_loop(waits()) == "rung"
    assert run(waits()) is None


def test_a_script_cancelled_in_the_middle_has_written_nothing() -> None:
    async def work() -> None:
        loop, begun = Loop(), asyncio.Event()

        def script() -> Script[None]:
            yield Statement(NOTE, (1, "half"))
            begun.set()
            yield Statement("SELECT pg_sleep(60)")

        task = asyncio.create_task(loop.drive(atomically(script())))
        await asyncio.wait_for(begun.wait(), 30)
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError)
        # Its place is free again, on a new connection.
        assert await loop.drive(atomically(write("a"))) == 1
        await loop.close()

    asyncio.run(work())
    assert noted() == ["a"]
