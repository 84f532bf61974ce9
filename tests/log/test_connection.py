"""The event loop's own connections: what is committed, and what becomes of it when something goes wrong on the way."""

import asyncio
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from topics.connection import Connection, connect

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def table() -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex[:12]}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (n integer PRIMARY KEY)")
        yield name
        cursor.execute(f"DROP TABLE {name}")


def kept(table: str) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT n FROM {table} ORDER BY n")
        return [n for (n,) in cursor.fetchall()]


def test_statements_that_go_together_answer_their_rows_and_times(table: str) -> None:
    async def work() -> None:
        one = await connect()
        insert = f"INSERT INTO {table} VALUES (%s) RETURNING n, n = 1"
        rows, wrote, committed = await one.together([(insert, (1,)), (insert, (2,))])
        assert rows == [[(1, True)], [(2, False)]]
        assert wrote < committed
        assert await one.execute("SELECT count(*) FROM " + table) == [(2,)]
        await one.close()

    asyncio.run(work())
    assert kept(table) == [1, 2]


def test_what_is_refused_is_not_committed_and_the_connection_goes_on(table: str) -> None:
    async def work() -> None:
        one = await connect()
        with pytest.raises(psycopg.errors.UniqueViolation):
            await one.together([(f"INSERT INTO {table} VALUES (%s)", (1,))] * 2)
        with pytest.raises(psycopg.errors.SyntaxError):
            await one.together([("INSERT INTO", ())])
        (rows, *_) = await one.together([(f"INSERT INTO {table} VALUES (%(n)s) RETURNING n", {"n": 3})])
        assert rows == [[(3,)]]
        assert await one.execute("SELECT pg_current_xact_id_if_assigned() IS NULL") == [(True,)]
        await one.close()

    asyncio.run(work())
    assert kept(table) == [3]


def test_a_server_that_ends_it_is_an_error_and_no_wait(table: str) -> None:
    async def end(other: Connection, pid: int) -> None:
        while await other.execute("SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = %s", (pid,)) != [
            (True,)
        ]:
            await asyncio.sleep(0.01)
        await other.execute("SELECT pg_terminate_backend(%s)", (pid,))

    async def work() -> None:
        one, other = await connect(), await connect()
        [(pid,)] = await one.execute("SELECT pg_backend_pid()")
        ending = asyncio.create_task(end(other, pid))
        statement = f"WITH new AS (INSERT INTO {table} VALUES (1)) SELECT pg_sleep(60)"
        with pytest.raises(psycopg.OperationalError):
            await asyncio.wait_for(one.together([(statement, ())]), 30)
        assert one.closed
        await ending
        await other.close()

    asyncio.run(work())
    assert kept(table) == []


def test_who_is_cancelled_on_the_way_leaves_the_connection_to_nobody() -> None:
    async def work() -> None:
        one = await connect()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(one.together([("SELECT pg_sleep(1)", ())]), 0.1)
        assert one.closed
        with pytest.raises(psycopg.OperationalError):
            await one.execute("SELECT 1")

    asyncio.run(work())
