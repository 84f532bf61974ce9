"""Simultaneous reads of an event loop share a round trip, and no read is told of another's trouble."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from base.errors import InvalidRequest, NotReady
from store.codec import Rows
from store.connection import Connection
from store.reads import MOST, Reads

SLOW, ECHO, WRONG = "SELECT pg_sleep(0.2)", "SELECT %s::bigint", "SELECT %s::bigint / 0"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many statements each round trip carried, of those that carried several."""
    sizes: list[int] = []
    together = Connection.together

    async def counted(self: Connection, statements: Any) -> tuple[list[Rows], float, float]:
        sizes.append(len(statements))
        return await together(self, statements)

    monkeypatch.setattr(Connection, "together", counted)
    return sizes


async def behind(reads: Reads, *asked: tuple[str, int]) -> list[Any]:
    """What comes of these reads, which arrive while the only connection is busy."""
    first = asyncio.ensure_future(reads.execute(SLOW, ()))
    await asyncio.sleep(0)
    found = await asyncio.gather(*(reads.execute(sql, (value,)) for sql, value in asked), return_exceptions=True)
    await first
    await reads.close()
    return found


def test_those_that_wait_go_out_together(round_trips: list[int]) -> None:
    async def work() -> list[Any]:
        return await behind(Reads(1), *((ECHO, value) for value in range(MOST + 3)))

    assert asyncio.run(work()) == [[(value,)] for value in range(MOST + 3)]
    assert round_trips == [MOST, 3]


def test_one_that_fails_fails_alone(round_trips: list[int]) -> None:
    async def work() -> list[Any]:
        return await behind(Reads(1), (ECHO, 1), (WRONG, 2), (ECHO, 3))

    before, wrong, after = asyncio.run(work())
    assert (before, after) == ([(1,)], [(3,)])
    assert isinstance(wrong, InvalidRequest | psycopg.DataError)
    assert round_trips == [3]


def test_a_connection_that_ends_under_them_costs_nobody_an_answer() -> None:
    async def work() -> list[Any]:
        reads = Reads(1)
        ((backend,),) = await reads.execute("SELECT pg_backend_pid()::bigint", ())
        first = asyncio.ensure_future(reads.execute(SLOW, ()))
        await asyncio.sleep(0)
        rest = [asyncio.ensure_future(reads.execute(ECHO, (value,))) for value in range(3)]
        await asyncio.sleep(0)
        other = Reads(1)
        await other.execute("SELECT pg_terminate_backend(%s)", (backend,))
        found = await asyncio.gather(first, *rest, return_exceptions=True)
        await other.close()
        await reads.close()
        return found

    first, *rest = asyncio.run(work())
    assert rest == [[(0,)], [(1,)], [(2,)]]
    assert isinstance(first, NotReady) or len(first) == 1


def test_a_client_that_goes_takes_no_other_along(round_trips: list[int]) -> None:
    async def work() -> list[Any]:
        reads = Reads(1)
        first = asyncio.ensure_future(reads.execute(SLOW, ()))
        await asyncio.sleep(0)
        gone, left = (asyncio.ensure_future(reads.execute(ECHO, (value,))) for value in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        found = await asyncio.gather(first, gone, left, return_exceptions=True)
        await reads.close()
        return found[1:]

    gone, left = asyncio.run(work())
    assert isinstance(gone, asyncio.CancelledError)
    assert left == [(2,)]


def test_those_that_ask_the_same_share_the_statement(round_trips: list[int]) -> None:
    async def work() -> list[Any]:
        return await behind(Reads(1), *((ECHO, value) for value in (1, 2, 1, 2, 1)))

    assert asyncio.run(work()) == [[(value,)] for value in (1, 2, 1, 2, 1)]
    assert round_trips == [2]


def test_a_client_that_goes_away_leaves_the_others_their_answer() -> None:
    async def work() -> list[Any]:
        reads = Reads(1)
        first = asyncio.ensure_future(reads.execute(SLOW, ()))
        await asyncio.sleep(0)
        same = [asyncio.ensure_future(reads.execute(ECHO, (1,))) for _ in range(3)]
        await asyncio.sleep(0)
        same[0].cancel()
        found = await asyncio.gather(*same, return_exceptions=True)
        await first
        await reads.close()
        return found

    gone, *others = asyncio.run(work())
    assert isinstance(gone, asyncio.CancelledError)
    assert others == [[(1,)], [(1,)]]


def test_a_list_among_the_arguments_is_asked_for_itself(round_trips: list[int]) -> None:
    async def work() -> list[Any]:
        reads = Reads(1)
        first = asyncio.ensure_future(reads.execute(SLOW, ()))
        await asyncio.sleep(0)
        found = await asyncio.gather(*(reads.execute("SELECT (%s::text[])[1]", ([name],)) for name in ("a", "a", "b")))
        await first
        await reads.close()
        return found

    assert asyncio.run(work()) == [[("a",)], [("a",)], [("b",)]]
    assert round_trips == [3]
