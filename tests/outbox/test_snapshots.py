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


@pytest.mark.parametrize("statement", ["SELECT topics.uncapture('shop.stock')", "REINDEX INDEX shop.stock_pkey"])
def test_a_snapshot_holds_up_no_other_topic(stock: Client, client: Clients, relay: Relay, statement: str) -> None:
    """While a transaction that is open holds the capture, or an index of the table."""
    stock.execute("SELECT topics.capture('shop.stock', 'stock', snapshot => true)")
    holder = client()
    with holder.transaction(force_rollback=True):
        holder.execute(statement.encode())
        stock.execute("SELECT topics.emit('other', '1')")
        finish(relay)
        assert told("other") == [(None, "1")]
        assert stock.execute("SELECT state, snapshot_rows FROM topics.captures").fetchall() == [("snapshot", 0)]
    relay.snapshots.next_at = 0.0
    finish(relay)
    assert followed(told("stock")) == in_table(stock)


KEYS = """
CREATE DOMAIN shop.code AS varchar(3);
CREATE TABLE shop.keys AS
SELECT (n % 2 = 0) AS a, lpad('', n % 3, 'x')::char(4) AS b, (n % 4 || 'é')::shop.code AS c, n / 3.0::float8 AS d,
       n * interval '1 day' AS e, ARRAY[n] AS f, n::bit(8) AS g, n::numeric(6, 2) AS h, n::text::bytea AS i,
       to_timestamp(n)::timestamptz(3) AS j, 'c'::"char" AS k
  FROM generate_series(1, 30) n;
ALTER TABLE shop.keys ADD PRIMARY KEY (a, b, c, d, e, f, g, h, i, j, k)
"""


def test_a_snapshot_continues_behind_a_key_of_any_type(stock: Client, relay: Relay) -> None:
    stock.execute(KEYS)
    stock.execute("SELECT topics.capture('shop.keys', 'keys', snapshot => true)")
    finish(relay)
    changes = told("keys")
    assert len(changes) == len(followed(changes)) == 30
    assert stock.execute("SELECT state, snapshot_rows FROM topics.captures").fetchall() == [("live", 30)]


# `theirs.who` has the login with whose rights a function of the owner of the table ran: as a CHECK, in a cast, or in planning.
THEIRS = """
CREATE TABLE theirs.who (name text);
GRANT INSERT ON theirs.who TO PUBLIC;
CREATE FUNCTION theirs.told() RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO theirs.who VALUES (current_user); RETURN true; END $$;
CREATE FUNCTION theirs.one(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM theirs.told(); RETURN 1; END $$;
CREATE TYPE theirs.mood AS ENUM ('1', '2', '3', '4', '5', '6', '7', '8', '9');
CREATE FUNCTION theirs.text(theirs.mood) RETURNS text LANGUAGE sql AS 'SELECT theirs.told()::text';
CREATE CAST (theirs.mood AS text) WITH FUNCTION theirs.text(theirs.mood);
CREATE DOMAIN theirs.place AS int CHECK (theirs.told())
"""
PLAIN = "CREATE TABLE theirs.t (id int PRIMARY KEY, n int)"
PARTED = """
CREATE TABLE theirs.t (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE theirs.part PARTITION OF theirs.t (CHECK (id > theirs.one(1) - 9)) FOR VALUES FROM (0) TO (100)
"""
KINDS = {
    "domain": ("CREATE TABLE theirs.t (id theirs.place PRIMARY KEY)", ""),
    "enum": ("CREATE TABLE theirs.t (id theirs.mood PRIMARY KEY)", ""),
    "domain, later": (PLAIN, "ALTER TABLE theirs.t ALTER id TYPE theirs.place"),
    "enum, later": (PLAIN, "ALTER TABLE theirs.t ALTER id TYPE theirs.mood USING id::text::theirs.mood"),
    "check of a partition": (PARTED, ""),
}
TRUST = "GRANT topics_snapshot TO their_owner"
CAPTURE = "SELECT topics.capture('theirs.t', 'theirs', key => 'id', snapshot => true)"


@pytest.fixture
def theirs(stock: Client) -> Iterator[Client]:
    """The session of a login that may only write topics, and has a schema of its own."""
    stock.execute("CREATE ROLE their_owner LOGIN PASSWORD 'secret' IN ROLE topics_writer")
    stock.execute(
        "CREATE SCHEMA theirs; GRANT ALL ON SCHEMA theirs TO their_owner; GRANT USAGE ON SCHEMA theirs TO PUBLIC"
    )
    with psycopg.connect(stock.info.dsn, user="their_owner", password="secret", autocommit=True) as session:
        session.execute(THEIRS)
        yield session
    stock.execute(
        "GRANT their_owner TO CURRENT_USER; DROP SCHEMA theirs CASCADE; DROP OWNED BY their_owner; DROP ROLE their_owner"
    )


def fill(session: Client, table: str) -> None:
    """Creates the table with 9 rows, more than a chunk has."""
    session.execute(table.encode())
    ((kind,),) = session.execute(
        "SELECT atttypid::regtype::text FROM pg_attribute WHERE attrelid = 'theirs.t'::regclass AND attname = 'id'"
    ).fetchall()
    rows = f"INSERT INTO theirs.t SELECT n::text::{kind} FROM generate_series(1, 9) n"
    session.execute(rows.encode())
    session.execute("GRANT SELECT ON theirs.t TO PUBLIC")


def others(session: Client) -> list[tuple[str]]:
    """Returns who else ran the functions of the owner of the table."""
    return session.execute("SELECT name FROM theirs.who WHERE name <> current_user").fetchall()


@pytest.mark.parametrize("way", KINDS)
def test_a_snapshot_runs_no_function_of_a_type(way: str, theirs: Client, stock: Client, relay: Relay) -> None:
    stock.execute(TRUST)
    table, change = KINDS[way]
    fill(theirs, table)
    theirs.execute(CAPTURE)
    theirs.execute(change.encode())
    finish(relay)
    assert theirs.execute("SELECT state, error FROM topics.captures").fetchall() == [("live", None)]
    assert sorted(tag or "" for tag, _ in told("theirs")) == list("123456789")
    assert others(theirs) == []


def test_a_snapshot_needs_an_owner_of_the_table_who_is_trusted(theirs: Client, stock: Client, relay: Relay) -> None:
    """An index of a trusted owner can use functions. If the trust ends, the relay reads no more, and tells why."""
    fill(theirs, f"{PLAIN}; CREATE INDEX ON theirs.t ((n + theirs.one(1)))")
    with pytest.raises(
        psycopg.Error, match="if you trust the owner of the table, run GRANT topics_snapshot"
    ) as refused:
        theirs.execute(CAPTURE)
    assert refused.value.sqlstate == "TP001"
    theirs.execute("SELECT topics.capture('theirs.t', 'theirs')")  # without a snapshot, nobody else reads the table
    theirs.execute("SELECT topics.uncapture('theirs.t')")
    assert others(theirs) == []
    stock.execute(TRUST)
    theirs.execute(CAPTURE)
    relay.round()
    stock.execute("REVOKE topics_snapshot FROM their_owner")
    ran = others(theirs)
    finish(relay)
    assert others(theirs) == ran
    ((state, error),) = theirs.execute("SELECT state, error FROM topics.captures").fetchall()
    assert (state, TRUST in error) == ("snapshot", True)


def test_the_owner_of_a_partition_is_trusted_too(theirs: Client, stock: Client) -> None:
    stock.execute("CREATE TABLE shop.t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    fill(theirs, PLAIN)
    theirs.execute("GRANT ALL ON theirs.t TO CURRENT_USER")
    theirs.execute("ALTER TABLE theirs.t DROP COLUMN n")
    stock.execute("GRANT their_owner TO CURRENT_USER")
    stock.execute("ALTER TABLE shop.t ATTACH PARTITION theirs.t FOR VALUES FROM (0) TO (100)")
    with pytest.raises(psycopg.Error, match=r"an index of theirs\.t could run"):
        stock.execute("SELECT topics.capture('shop.t', 'theirs', snapshot => true)")
