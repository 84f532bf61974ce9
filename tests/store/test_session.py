"""All connections that run scripts have the same settings, whatever the database sets (store/session.py, store/planner.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connection, transaction

from base.errors import NotReady
from store.connection import connect
from store.database import prepared
from store.planner import SESSION
from store.session import RELIED_ON

LINES = [line.rstrip(";") for text in (RELIED_ON, SESSION) for line in text.strip().splitlines()]
NAMES = [line.split()[1] for line in LINES]
SETTINGS = f"SELECT {', '.join(f'current_setting({name!r})' for name in NAMES)}"
WANTED = tuple(line.partition(" = ")[2].strip("'") for line in LINES)
HOSTILE = {
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "DateStyle": "German",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Tokyo",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "statement_timeout": "1h",
    "lock_timeout": "1h",
    "idle_in_transaction_session_timeout": "1h",
    "idle_session_timeout": "1h",
}


async def of_an_event_loop() -> tuple[str, ...]:
    opened = await connect()
    try:
        return tuple((await opened.execute(SETTINGS))[0])
    finally:
        await opened.close()


def of_a_thread() -> tuple[str, ...]:
    try:
        return tuple(prepared(SETTINGS, ())[0])
    finally:
        connection.close()


@pytest.fixture
def _hostile(transactional_db: None) -> Iterator[None]:
    """A database that sets everything otherwise than the code relies on."""
    assert HOSTILE.keys() == {line.split()[1] for line in RELIED_ON.strip().splitlines()}
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_database())")
        (name,) = cursor.fetchone()
        for setting, value in HOSTILE.items():
            cursor.execute(f"ALTER DATABASE {name} SET {setting} = %s", [value])
        try:
            yield
        finally:
            cursor.execute(f"ALTER DATABASE {name} RESET ALL")


@pytest.mark.usefixtures("_hostile")
def test_each_connection_has_the_same_settings() -> None:
    with ThreadPoolExecutor(1) as threads:
        loop, thread = asyncio.run(of_an_event_loop()), threads.submit(of_a_thread).result()
    own = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")  # of an event loop
    limits = [NAMES.index(name) for name in own]
    assert thread == WANTED
    assert [each for place, each in enumerate(loop) if place not in limits] == [
        each for place, each in enumerate(WANTED) if place not in limits
    ]


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_takes_no_writes_is_not_ready_and_is_closed() -> None:
    """The next one may lead to a server that takes them."""
    prepared("SET default_transaction_read_only = on", ())
    with pytest.raises(NotReady, match="read only"):
        prepared("DELETE FROM topics_topic", ())
    prepared("DELETE FROM topics_topic", ())

    def write_in_a_transaction() -> None:
        with transaction.atomic():
            prepared("SET TRANSACTION READ ONLY", ())
            prepared("DELETE FROM topics_topic", ())

    with pytest.raises(NotReady, match="read only"):
        write_in_a_transaction()
    with transaction.atomic():
        prepared("DELETE FROM topics_topic", ())


def test_an_event_loop_also_closes_a_connection_that_takes_no_writes() -> None:
    async def written() -> bool:
        opened = await connect()
        await opened.run("SET default_transaction_read_only = on")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await opened.execute("DELETE FROM topics_topic")
        return opened.closed

    assert asyncio.run(written())
