"""Snapshots of captured tables: the rows that exist join the changes beside them."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

import psycopg
import pytest

from outbox import snapshots
from outbox.relay import Relay
from tests.outbox.captures import followed, held, told
from tests.outbox.clients import Client, Clients, finish

BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation)
ROWS = "INSERT INTO shop.stock SELECT n / 10, n % 10, 'first' FROM generate_series(1, 300) n"


@pytest.fixture
def stock(client: Clients, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A table with 300 rows, and a relay that reads 7 rows at once."""
    monkeypatch.setattr(snapshots, "CHUNK_ROWS", 7)
    session = client()
    session.execute("DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop; TRUNCATE outbox_capture")
    session.execute("CREATE TABLE shop.stock (place int, shelf int, state text, PRIMARY KEY (place, shelf))")
    session.execute(ROWS)
    yield session
    session.execute("DROP SCHEMA shop CASCADE; TRUNCATE outbox_capture")


def in_table(session: Client) -> dict[str | None, object]:
    return held(session, "shop.stock", "format('[%s,%s]', place, shelf)")


def write(session: Client, chance: random.Random, count: int) -> None:
    for number in range(count):
        place, shelf = chance.randrange(31), chance.randrange(10)
        with session.transaction(force_rollback=chance.random() < 0.2):
            match chance.randrange(4):
                case 0:
                    session.execute("DELETE FROM shop.stock WHERE place = %s AND shelf = %s", [place, shelf])
                case 1:
                    session.execute(
                        "INSERT INTO shop.stock VALUES (%s, %s, 'new') ON CONFLICT DO NOTHING", [place, shelf]
                    )
                case 2:
                    session.execute("UPDATE shop.stock SET state = %s WHERE place = %s", [str(number), place])
                case _:
                    session.execute("UPDATE shop.stock SET place = place + 40 WHERE place = %s AND shelf = %s "
                                    "AND NOT EXISTS (SELECT FROM shop.stock s WHERE s.place = %s AND s.shelf = %s)",
                                    [place, shelf, place + 40, shelf])  # fmt: skip


def test_a_snapshot_beside_writers_ends_with_the_table(stock: Client, client: Clients, relay: Relay) -> None:
    """Also beside a transaction that was open before the snapshot began and commits in its middle."""
    stock.execute("SELECT topics.capture('shop.stock', 'stock', snapshot => true)")
    late = client()
    late.execute("BEGIN")
    late.execute("UPDATE shop.stock SET state = 'late' WHERE shelf IN (8, 9)")
    stopping = threading.Event()

    def work(session: Client, seed: int) -> None:
        session.execute("SET lock_timeout = '50ms'")
        chance = random.Random(seed)
        while not stopping.is_set():
            with contextlib.suppress(*BUSY):
                write(session, chance, 5)

    threads = [threading.Thread(target=work, args=(client(), seed)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for rounds in range(10_000):
        relay.round()
        if rounds == 20:
            late.execute("COMMIT")
        ((state, sent),) = stock.execute("SELECT state, snapshot_rows FROM topics.captures").fetchall()
        if state == "live":
            break
    stopping.set()
    for thread in threads:
        thread.join()
    finish(relay)
    assert sent >= 100
    changes = told("stock")
    assert {"read", "update", "insert", "delete"} <= {change["op"] for _, change in changes}
    # Before the snapshot has come to a row, a reader can get a change of it.
    assert followed(changes, is_whole=False) == in_table(stock)


def test_another_relay_continues_a_snapshot(stock: Client) -> None:
    stock.execute("SELECT topics.capture('shop.stock', 'stock', snapshot => true)")
    for _ in range(12):  # each relay dies with a chunk in its memory
        relay = Relay()
        relay.round()
        relay.round()
        relay.round()
    ((sent,),) = stock.execute("SELECT snapshot_rows FROM topics.captures").fetchall()
    assert 0 < sent < 300
    finish(Relay())
    changes = told("stock")
    assert len(changes) == 300
    assert followed(changes) == in_table(stock)
    assert stock.execute("SELECT state, snapshot_rows FROM topics.captures").fetchall() == [("live", 300)]


def test_a_snapshot_waits_for_its_table(stock: Client, client: Clients, relay: Relay) -> None:
    """A change of the definition of the table does not hold up other topics."""
    stock.execute("SELECT topics.capture('shop.stock', 'stock', snapshot => true)")
    migration = client()
    with migration.transaction():
        migration.execute("ALTER TABLE shop.stock ALTER place TYPE bigint")  # PostgreSQL rewrites the table
        stock.execute("SELECT topics.emit('other', '1')")
        relay.snapshots.next_at = 0.0
        finish(relay)
        assert stock.execute("SELECT state, snapshot_rows, error IS NULL FROM topics.captures").fetchall() == [
            ("snapshot", 0, False)
        ]
        assert told("other") == [(None, "1")]
    relay.snapshots.next_at = 0.0
    finish(relay)
    assert followed(told("stock")) == in_table(stock)
