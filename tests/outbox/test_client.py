"""The client's module for SQL: each library emits in its own transaction, and the relay is woken after the commit, not before."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
import sqlalchemy
from django.db import connection, transaction
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from topics_client.sql import emit, emit_async, wake

from outbox import relay as relays
from outbox.relay import Relay
from tests.instances import until
from tests.outbox.clients import Clients, finish, read
from topics import wake as wakes

NOTED = {"tag": "order:7", "node": "shop", "meta": {"a": 1}, "key": "k"}


@pytest.fixture
def listener(client: Clients) -> psycopg.Connection[Any]:
    session = client()
    session.execute("LISTEN topics")
    return session


def heard(listener: psycopg.Connection[Any]) -> int:
    return len(list(listener.notifies(timeout=0.5)))


def engine_of(client: Clients) -> sqlalchemy.Engine:
    known = client().info.get_parameters()
    password = connection.get_connection_params().get("password")
    query = {"host": known["host"], "port": known.get("port", "5432")}
    url = sqlalchemy.URL.create("postgresql+psycopg", known["user"], password, database=known["dbname"], query=query)
    return sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)


def test_django(client: Clients, relay: Relay, listener: psycopg.Connection[Any]) -> None:
    with transaction.atomic():
        emit(connection, "orders", {"id": 7}, **NOTED)
        assert heard(listener) == 0
    assert heard(listener) == 1
    with transaction.atomic():
        emit(connection, "orders", {"id": 8})
        transaction.set_rollback(True)
    finish(relay)
    assert read("orders") == [{"id": 7}]


def test_a_transaction_of_django_wakes_once(client: Clients, listener: psycopg.Connection[Any]) -> None:
    """Also if the savepoint of its first record is rolled back."""
    for _ in range(2):
        with transaction.atomic():
            with transaction.atomic():
                emit(connection, "orders", 1)
                transaction.set_rollback(True)
            for id in (2, 3, 4):
                emit(connection, "orders", id)
        assert heard(listener) == 1


def test_transactions_without_django_wake_by_themselves(
    client: Clients, relay: Relay, listener: psycopg.Connection[Any]
) -> None:
    transaction.set_autocommit(False)
    try:
        emit(connection, "orders", 1)
        connection.commit()
    finally:
        transaction.set_autocommit(True)
    assert heard(listener) == 0
    wake(connection)
    assert heard(listener) == 1
    finish(relay)
    assert read("orders") == [1]


def test_psycopg(client: Clients, relay: Relay, listener: psycopg.Connection[Any]) -> None:
    session = client()
    with session.transaction():
        emit(session, "orders", {"id": 7}, **NOTED)
    wake(session)
    assert heard(listener) == 1
    with session.transaction() as undone:
        emit(session, "orders", {"id": 8})
        raise psycopg.Rollback(undone)
    finish(relay)
    assert read("orders") == [{"id": 7}]


def test_sqlalchemy(client: Clients, relay: Relay, listener: psycopg.Connection[Any]) -> None:
    engine = engine_of(client)
    with Session(engine) as session, session.begin():
        emit(session, "orders", {"id": 7}, **NOTED)
        emit(session, "orders", {"id": 8})
        assert heard(listener) == 0
    assert heard(listener) >= 1
    with Session(engine) as session:
        emit(session, "orders", {"id": 9})
        session.rollback()
    with engine.begin() as other:
        emit(other, "orders", {"id": 10})
        assert heard(listener) == 0
    wake(other)
    assert heard(listener) == 1
    finish(relay)
    assert read("orders") == [{"id": 7}, {"id": 8}, {"id": 10}]


@pytest.mark.parametrize("scoped", [False, True])
def test_each_commit_of_a_session_of_sqlalchemy_wakes_if_it_has_emitted(
    client: Clients, relay: Relay, listener: psycopg.Connection[Any], scoped: bool
) -> None:
    factory = sessionmaker(engine_of(client))
    session = scoped_session(factory) if scoped else factory()
    try:
        for id in (1, 2):
            emit(session, "orders", {"id": id})
            emit(session, "orders", {"id": -id})
            session.commit()
            assert heard(listener) == 1
        session.execute(sqlalchemy.text("SELECT 1"))
        session.commit()
        assert heard(listener) == 0
    finally:
        session.close()
    finish(relay)
    assert read("orders") == [{"id": 1}, {"id": -1}, {"id": 2}, {"id": -2}]


def test_a_commit_needs_no_second_connection_of_the_pool(
    client: Clients, relay: Relay, listener: psycopg.Connection[Any]
) -> None:
    engine = sqlalchemy.create_engine(engine_of(client).url, pool_size=1, max_overflow=0, pool_timeout=1)
    with Session(engine) as session:
        emit(session, "orders", {"id": 1})
        session.commit()
        assert heard(listener) == 1
        emit(session, "orders", {"id": 2})
        session.rollback()
        session.commit()
        assert heard(listener) == 0
        with session.begin_nested():
            emit(session, "orders", {"id": 3})
        emit(session, "orders", {"id": 4})
        assert heard(listener) == 0
        session.commit()
        assert heard(listener) == 1
        with session.begin_nested():
            emit(session, "orders", {"id": 5})
        assert heard(listener) == 0
        session.commit()
        assert heard(listener) == 1
    engine.dispose()
    finish(relay)
    assert read("orders") == [{"id": 1}, {"id": 3}, {"id": 4}, {"id": 5}]


def test_a_commit_succeeds_although_the_relay_cannot_be_woken(
    client: Clients, relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    """Another part of the application has all other connections of the pool."""
    engine = sqlalchemy.create_engine(engine_of(client).url, pool_size=1, max_overflow=0, pool_timeout=0.1)
    with engine.connect() as connection, Session(connection) as session:
        emit(session, "orders", {"id": 1})
        session.commit()
    engine.dispose()
    assert "emitted records take up to 250 ms: QueuePool limit" in caplog.text
    finish(relay)
    assert read("orders") == [{"id": 1}]


def test_a_wake_with_a_topic_wakes_its_readers(client: Clients, relay: Relay) -> None:
    """An append by SQL tells no process of the server that the head moved."""
    session, moved = client(), list[tuple[int, int]]()

    def listener(topic_id: int, head_seq: int, written: object) -> None:
        moved.append((topic_id, head_seq))

    relays.listen()
    wakes.listen(listener)
    try:
        session.execute("""SELECT topics.append('orders', '[{"data": 1}, {"data": 2}]')""")
        wake(session, "orders")
        wake(session, "nobody-knows")
        until(lambda: finish(relay) or moved, "the wake-up")
    finally:
        wakes.leave(listener)
    ((id,),) = session.execute("SELECT id FROM topics_topic").fetchall()
    assert set(moved) == {(id, 2)}


def test_an_asynchronous_connection(client: Clients, relay: Relay) -> None:
    async def emitted() -> None:
        given = connection.get_connection_params()
        known = {name: given[name] for name in ("dbname", "user", "password", "host", "port") if name in given}
        async with await psycopg.AsyncConnection.connect(**known) as session:
            await emit_async(session, "orders", {"id": 8}, meta={"b": 2})

    asyncio.run(emitted())
    finish(relay)
    assert read("orders") == [{"id": 8}]


def test_a_refusal_is_the_librarys_error(client: Clients) -> None:
    with pytest.raises(psycopg.Error, match="invalid topic") as refused:
        emit(client(), "no topic", 1)
    assert refused.value.diag.message_detail == "invalid_request"
