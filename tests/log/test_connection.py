"""The event loop's own connections: commits, and the state after errors."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import struct
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import uvloop
from django.db import connection

from base.errors import NotReady
from store.connection import Connection, connect
from store.liveness import SLOW_SECONDS, parameters
from store.pool import Pool

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


async def asleep(other: Connection, pid: int) -> None:
    """Come back when that backend is in the middle of pg_sleep()."""
    looking = "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = %s"
    while await other.execute(looking, (pid,)) != [(True,)]:
        await asyncio.sleep(0.01)


def test_a_server_that_ends_it_is_an_error_and_no_wait(table: str) -> None:
    async def end(other: Connection, pid: int) -> None:
        await asleep(other, pid)
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


def test_a_request_cancelled_on_the_way_leaves_no_connection_to_others() -> None:
    async def work() -> None:
        one, other = await connect(), await connect()
        [(pid,)] = await one.execute("SELECT pg_backend_pid()")
        asking = asyncio.create_task(one.together([("SELECT pg_sleep(60)", ())]))
        await asyncio.wait_for(asleep(other, pid), 30)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert one.closed
        with pytest.raises(psycopg.OperationalError):
            await one.execute("SELECT 1")
        await other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        await other.close()

    asyncio.run(work())


def stop_backend(stack: contextlib.ExitStack, pid: int) -> None:
    """It answers nothing more, until the stack unwinds."""
    os.kill(pid, signal.SIGSTOP)
    stack.callback(os.kill, pid, signal.SIGCONT)


def test_an_answer_that_never_comes_ends_the_connection() -> None:
    async def work(stack: contextlib.ExitStack) -> None:
        one, other = await connect(), await connect()
        [(pid,)] = await one.execute("SELECT pg_backend_pid()")
        stop_backend(stack, pid)
        one.most = 1.0
        with pytest.raises(psycopg.errors.QueryCanceled):
            await asyncio.wait_for(one.execute("SELECT 1"), 30)
        assert one.closed
        assert await other.execute("SELECT 1") == [(1,)]  # PostgreSQL itself is there
        await other.close()

    with contextlib.ExitStack() as stack:
        asyncio.run(work(stack))


def test_a_reader_that_stalls_or_dies_gives_its_place_to_another() -> None:
    async def pid(reader: Connection) -> int:
        reader.most = 1.0
        [(pid,)] = await reader.execute("SELECT pg_backend_pid()")
        return int(pid)

    async def work(stack: contextlib.ExitStack) -> None:
        readers = Pool(1)
        stalled = await readers.read(pid)
        stop_backend(stack, stalled)
        with pytest.raises(NotReady):
            await asyncio.wait_for(readers.read(pid), 30)
        ended = await asyncio.wait_for(readers.read(pid), 30)
        assert ended != stalled
        os.kill(ended, signal.SIGTERM)
        assert await asyncio.wait_for(readers.read(pid), 30) != ended
        await readers.close()

    with contextlib.ExitStack() as stack:
        asyncio.run(work(stack))


def resetting(listening: socket.socket, host: str, port: int) -> None:
    """Stand between one client and PostgreSQL. The answer to SELECT 4711 is cut short, and reset in one with it."""
    client, _ = listening.accept()
    with client, socket.socket(socket.AF_UNIX if host.startswith("/") else socket.AF_INET) as server:
        server.connect(f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port))
        asked = False
        while True:
            for ready in select.select([client, server], [], [])[0]:
                data = ready.recv(65536)
                asked |= b"4711" in data and ready is client
                if asked and ready is server:
                    client.sendall(data[:-6])
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return  # and with this setting, closing resets
                (server if ready is client else client).sendall(data)


def test_a_reset_that_comes_with_data_is_noticed_at_once() -> None:
    """uvloop tells of the two together, and of nothing after that."""

    async def work(port: int) -> None:
        options = {**parameters(), "host": "127.0.0.1", "port": port}
        one = Connection(await psycopg.AsyncConnection.connect(**options))

        def send() -> None:
            one.server.send_query(b"SELECT 4711")
            one.server.flush()
            hung_up = select.poll()
            hung_up.register(one.server.socket, select.POLLERR)
            assert hung_up.poll(30_000)  # the loop sees nothing until both are there

        with pytest.raises(psycopg.OperationalError) as raised:
            await asyncio.wait_for(one.ask(send), 30)
        assert not isinstance(raised.value, psycopg.errors.QueryCanceled)  # the deadline, which is for worse
        assert one.closed

    connection.ensure_connection()
    info = connection.connection.info
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as threads:
        threads.submit(resetting, listening, info.host, info.port)
        uvloop.run(work(listening.getsockname()[1]))


def test_a_slow_statement_is_no_dead_postgresql() -> None:
    async def work() -> None:
        one = await connect()
        rows = await one.execute("SELECT 1 FROM pg_sleep(%s)", [3 * SLOW_SECONDS])  # long enough to be doubted
        assert rows == [(1,)]
        await one.close()

    asyncio.run(work())
