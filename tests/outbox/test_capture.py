"""topics.capture: what a reader of the topic gets of the changes of a table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from base.clock import now_ms
from console.health.problems import of_captures
from console.history.samples import DAY_MS
from outbox.metrics import collect_captures
from outbox.relay import Relay
from store.script import run
from tests.examples import examples
from tests.outbox.captures import followed, held, told
from tests.outbox.clients import Client, Clients, connecting, finish
from tests.scripts import diff
from topics.read.diff import Diff
from wire.access.keys import Key

TABLE = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text, total numeric, note jsonb)"


@pytest.fixture
def shop(client: Clients) -> Iterator[Client]:
    session = client()
    session.execute("DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop")
    session.execute(TABLE)
    session.execute("TRUNCATE outbox_capture")
    yield session
    session.execute("DROP SCHEMA shop CASCADE; TRUNCATE outbox_capture")


def lost(topic: str, after: int = 0) -> tuple[str | None, int]:
    """Returns the reason and the end of the tombstone of a reader after this seq."""
    window = diff(topic, Diff(from_seq=after, limit=1), now_ms())
    return window.lost, window.gap_to


def test_each_change_arrives_with_its_key(shop: Client, relay: Relay) -> None:
    shop.execute("SELECT topics.capture('shop.orders', 'orders-changes')")
    shop.execute("""INSERT INTO shop.orders VALUES (7, 'new', 19.90, '{"a": 1}'), (8, 'new', 'NaN', NULL)""")
    shop.execute("UPDATE shop.orders SET state = 'paid', total = total WHERE id = 7")
    shop.execute("UPDATE shop.orders SET state = state")  # changes nothing, and sends nothing
    shop.execute("UPDATE shop.orders SET id = 9 WHERE id = 7")
    shop.execute("DELETE FROM shop.orders WHERE id = 8")
    shop.execute("TRUNCATE shop.orders")
    finish(relay)
    seven = {"id": "7", "state": "new", "total": "19.90", "note": {"a": "1"}}
    eight = {"id": "8", "state": "new", "total": "NaN", "note": None}
    assert told("orders-changes") == [
        ("7", {"op": "insert", "new": seven}),
        ("8", {"op": "insert", "new": eight}),
        ("7", {"op": "update", "old": {"state": "new"}, "new": seven | {"state": "paid"}}),
        ("7", {"op": "delete", "old": seven | {"state": "paid"}}),
        ("9", {"op": "insert", "new": seven | {"state": "paid", "id": "9"}}),
        ("8", {"op": "delete", "old": eight}),
        (None, {"op": "truncate"}),
    ]
    (record, *_) = json.loads(f"[{diff('orders-changes', Diff(from_seq=0, limit=1), now_ms()).records}]")
    assert record["meta"] == {"table": "shop.orders", "xid": record["meta"]["xid"]}


ids = st.integers(1, 4)
STATEMENTS = st.one_of(
    st.builds("INSERT INTO orders SELECT n FROM generate_series({0}, {0} + {1}) n ON CONFLICT DO NOTHING".format, ids, ids),
    st.builds("INSERT INTO orders VALUES ({0}, 'up') ON CONFLICT (id) DO UPDATE SET state = 'a', total = {1}".format, ids, ids),
    st.builds("UPDATE orders SET total = coalesce(total, 0) + 0.10 WHERE id >= {0}".format, ids),
    st.builds("UPDATE orders SET id = id + 10 * {1} WHERE id = {0}".format, ids, ids),
    st.just("UPDATE orders SET id = id - 10 WHERE id > 10 AND NOT EXISTS (SELECT FROM orders o WHERE o.id = orders.id - 10)"),
    st.builds("DELETE FROM orders WHERE id = {0}".format, ids),
    st.just("TRUNCATE orders"),
    st.just("INSERT INTO orders VALUES (1), (1)"),  # fails
)  # fmt: skip
TRANSACTIONS = st.lists(
    st.tuples(st.lists(st.tuples(STATEMENTS, st.booleans()), max_size=4), st.booleans()), max_size=8
)


@given(transactions=TRANSACTIONS)
@settings(max_examples=examples(25))
def test_a_reader_ends_with_the_table(shop: Client, transactions: list[Any]) -> None:
    """After any transactions, with savepoints and rollbacks."""
    shop.execute('SELECT topics.uncapture("table") FROM topics.captures')
    topic = f"any-{now_ms()}"
    shop.execute("SELECT topics.capture('shop.orders', %s)", [topic])
    shop.execute("TRUNCATE shop.orders; SET search_path = shop, public")
    for statements, commits in transactions:
        with shop.transaction(force_rollback=not commits):
            for statement, is_kept in statements:
                try:
                    with shop.transaction(force_rollback=not is_kept):
                        shop.execute(statement.encode())
                except psycopg.errors.UniqueViolation:
                    pass
    with ExitStack() as stack:
        expected = held(connecting(stack), "shop.orders")
    finish(Relay())
    assert followed(told(topic)) == expected


def test_a_change_that_is_too_large_is_a_tombstone_between_the_others(shop: Client, relay: Relay) -> None:
    shop.execute("SELECT topics.capture('shop.orders', 'orders-changes')")
    shop.execute(
        "INSERT INTO shop.orders SELECT n, CASE n WHEN 2 THEN repeat('x', 1048576) ELSE 'x' END FROM generate_series(1, 3) n"
    )
    shop.execute("TRUNCATE shop.orders")
    finish(relay)
    assert lost("orders-changes", 1) == ("capture", 2)
    assert [(tag, change["op"]) for tag, change in told("orders-changes")] == [
        ("1", "insert"),
        ("3", "insert"),
        (None, "truncate"),
    ]
    ((changes, losses, error),) = shop.execute("SELECT changes, lost, error FROM topics.captures").fetchall()
    assert (changes, losses) == (3, 1)
    assert "expected at most" in error


def test_a_loss_that_cannot_be_told_fails_the_statement(shop: Client, relay: Relay, client: Clients) -> None:
    """The outbox takes no row, as on a full disk."""
    shop.execute("SELECT topics.capture('shop.orders', 'told')")
    owner = client()
    owner.execute("ALTER TABLE outbox_emitted ADD CONSTRAINT full_disk CHECK (topic <> 'told')")
    try:
        with pytest.raises(psycopg.errors.CheckViolation):
            shop.execute("INSERT INTO shop.orders VALUES (1, 'x')")
    finally:
        owner.execute("ALTER TABLE outbox_emitted DROP CONSTRAINT full_disk")
    shop.execute("INSERT INTO shop.orders VALUES (2, 'x')")
    finish(relay)
    assert [tag for tag, _ in told("told")] == ["2"]
    assert shop.execute("SELECT id FROM shop.orders").fetchall() == [(2,)]


def test_operators_are_told_of_losses_and_of_a_capture_that_ended(shop: Client, relay: Relay) -> None:
    shop.execute("SELECT topics.capture('shop.orders', 'lossy')")
    shop.execute("INSERT INTO shop.orders VALUES (1, 'x')")
    finish(relay)
    assert list(of_captures(now_ms())) == []
    shop.execute("UPDATE shop.orders SET state = repeat('x', 1048576)")
    finish(relay)
    (failed,) = of_captures(now_ms())
    assert (failed.kind, failed.object) == ("capture failed", "capture of shop.orders")
    assert failed.text == "Topic lossy lost 1 change of table shop.orders. Its readers get a tombstone."
    assert "expected at most" in failed.advice
    assert list(of_captures(now_ms() + DAY_MS)) == []
    shop.execute("ALTER TABLE shop.orders DISABLE TRIGGER USER")
    (ended,) = of_captures(now_ms())
    assert (ended.kind, ended.object) == ("capture ended", "capture of shop.orders")
    lost, live = run(collect_captures(Key("", frozenset(), ("lo",))))
    assert [each.samples[0].value for each in (lost, live)] == [1, 0]
    assert not any(each.samples for each in run(collect_captures(Key("", frozenset(), ("other",)))))


def test_an_error_never_fails_the_statement_of_the_application(shop: Client, relay: Relay) -> None:
    """The key of the capture has another name by now. The loss counts the rows, and the next reader gets the reason."""
    shop.execute("SELECT topics.capture('shop.orders', 'skips', key => 'id')")
    shop.execute("ALTER TABLE shop.orders RENAME id TO number")
    shop.execute("INSERT INTO shop.orders VALUES (1), (2), (3)")
    finish(relay)
    assert lost("skips") == ("capture", 3)
    (error,) = shop.execute("SELECT error FROM topics.captures").fetchone() or ()
    assert "has no column id" in error
    shop.execute("SELECT topics.uncapture('shop.orders')")
    shop.execute("SELECT topics.capture('shop.orders', 'fails', on_error => 'fail')")
    with pytest.raises(psycopg.Error, match="expected at most") as refused:
        shop.execute("UPDATE shop.orders SET state = repeat('x', 1048576) WHERE number = 1")
    assert refused.value.sqlstate == "TP003"
    shop.execute("DELETE FROM shop.orders WHERE number = 2")
    finish(relay)
    assert [(tag, change["op"]) for tag, change in told("fails")] == [("2", "delete")]


def test_a_capture_that_a_transaction_ends_holds_up_no_topic(shop: Client, relay: Relay, client: Clients) -> None:
    """The figures of the capture are not final before the commit, and nobody waits for them."""
    ending = client()
    shop.execute("SELECT topics.capture('shop.orders', 'ended')")
    shop.execute("INSERT INTO shop.orders VALUES (1)")
    shop.execute("ALTER TABLE shop.orders RENAME TO sales")  # the relay notes it in the row of the capture
    shop.execute("SELECT topics.emit('other', '1')")
    with ending.transaction(force_rollback=True):
        ending.execute("SELECT topics.uncapture('shop.sales')")
        finish(relay)
        assert [len(told(topic)) for topic in ("ended", "other")] == [1, 1]
    shop.execute("INSERT INTO shop.sales VALUES (2)")
    relay.whole_at = -math.inf
    finish(relay)
    assert [tag for tag, _ in told("ended")] == ["1", "2"]
    assert shop.execute('SELECT "table", changes, lost FROM topics.captures').fetchall() == [("shop.sales", 1, 0)]


def test_a_loss_below_the_floor_keeps_its_reason(shop: Client, relay: Relay) -> None:
    shop.execute("SELECT topics.capture('shop.orders', 'short')")
    shop.execute("INSERT INTO shop.orders VALUES (1, repeat('x', 1048576))")
    shop.execute("INSERT INTO shop.orders VALUES (2), (3)")
    finish(relay)
    with shop.transaction():
        shop.execute(
            "SELECT topic_trim(topic_id, 2, 'cap') FROM topics_topichead, topics_topic t WHERE topic_id = t.id AND name = 'short'"
        )
    assert lost("short") == ("mixed", 2)
    assert lost("short", 2) == (None, 2)


# The names in our own SQL (capture_sql, capture_chunk), and signs that mean something to it.
NAMES = (
    "place", "entry", "old", "other", "new", "number", "number$", "change", "told", "reached", "keys", "key", "name", "kind",
    "a", "b", "rows_before", "rows_after", "known", "op", "concat", "to_json", "%s", "%1$s", "$1", "\"", "'", "\\",
)  # fmt: skip


def test_columns_can_have_any_name(shop: Client, relay: Relay) -> None:
    names, key = (
        sql.SQL(", ").join(map(sql.Identifier, each)) for each in (NAMES, ("place", "entry", "reached", "keys", "old"))
    )
    columns = sql.SQL(", ").join(sql.SQL("{} text DEFAULT 'x'").format(sql.Identifier(name)) for name in NAMES)
    shop.execute(sql.SQL("CREATE TABLE shop.rows_after ({}, PRIMARY KEY ({}))").format(columns, key))
    fill = sql.SQL("INSERT INTO shop.rows_after ({}) VALUES ({})")
    for row in "12":
        shop.execute(fill.format(names, sql.SQL(", ").join([sql.Literal(row)] * len(NAMES))))
    shop.execute("SELECT topics.capture('shop.rows_after', 'names', snapshot => true)")
    finish(relay)
    shop.execute("INSERT INTO shop.rows_after DEFAULT VALUES")
    for name in NAMES:  # also those of the key
        shop.execute(sql.SQL("UPDATE shop.rows_after SET {0} = {0} || 'y'").format(sql.Identifier(name)))
    shop.execute("DELETE FROM shop.rows_after WHERE place = '1y'")
    finish(relay)
    expected = held(shop, "shop.rows_after", "json_build_array(place, entry, reached, keys, old)::text")
    assert len(expected) == 2
    rows = followed(told("names"))
    assert {json.dumps(json.loads(tag or "")): row for tag, row in rows.items()} == expected
    assert shop.execute("SELECT lost, state FROM topics.captures").fetchall() == [(0, "live")]


def test_settings_of_a_session_change_no_change(shop: Client, relay: Relay) -> None:
    """An application may have any settings, by its role or its database."""
    shop.execute("ALTER TABLE shop.orders ALTER state SET NOT NULL, ADD UNIQUE (state, id)")
    shop.execute("SET standard_conforming_strings = off; SET escape_string_warning = off; SET array_nulls = off")
    shop.execute("SELECT topics.capture('shop.orders', 'settings', key => 'state, id')")
    shop.execute("INSERT INTO shop.orders VALUES (1, 'a', 1, %s)", ['{"a": "ü"}'])
    finish(relay)
    one = {"id": "1", "state": "a", "total": "1", "note": {"a": "ü"}}
    assert told("settings") == [('["a",1]', {"op": "insert", "new": one})]
    assert shop.execute("SELECT state, key FROM topics.captures").fetchall() == [("live", "state, id")]
    shop.execute("SELECT topics.uncapture('shop.orders')")


def test_json_that_topics_refuse_is_a_loss_of_its_own_row_alone(shop: Client, relay: Relay) -> None:
    shop.execute("CREATE TABLE shop.notes (name text PRIMARY KEY, note json)")
    shop.execute("SELECT topics.capture('shop.notes', 'notes')")
    shop.execute("INSERT INTO shop.notes VALUES ('a', '1'), ('b', %s), ('c', '3')", [r'{"half": "\ud800"}'])
    finish(relay)
    assert [tag for tag, _ in told("notes")] == ["a", "c"]
    assert lost("notes", 1) == ("capture", 2)


VALUES = """
CREATE TYPE shop.mood AS ENUM ('ok');
CREATE TYPE shop.pair AS (a int, b text);
CREATE FUNCTION shop.told(shop.pair) RETURNS json LANGUAGE plpgsql AS $$ BEGIN RAISE 'a function of the application'; END $$;
CREATE CAST (shop.pair AS json) WITH FUNCTION shop.told(shop.pair);
CREATE DOMAIN shop.amount AS numeric;
CREATE TABLE shop.kinds (
    a int, b text, "odd ""% name" shop.amount, bytes bytea, at timestamptz, days interval, day date, list int[],
    mood shop.mood, pair shop.pair, raw json, "$place2" float8, PRIMARY KEY (b, a))
"""


def test_each_value_has_one_form(shop: Client, relay: Relay) -> None:
    """Whatever the session of the writer is set to."""
    shop.execute(VALUES)
    shop.execute("SELECT topics.capture('shop.kinds', 'kinds')")
    shop.execute(
        "SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'; SET bytea_output = 'escape'; SET intervalstyle = 'sql_standard'"
    )
    shop.execute("""
        INSERT INTO shop.kinds VALUES (1, 'é"', 1.10, '\\x00ff', '2026-11-27 12:00+00', '1 day', '2026-11-27', '{1,NULL}', 'ok',
                                       '(1,x)', '{"n": 1.10, "s": "\\ud83d\\ude00"}', '-Infinity')""")
    shop.execute("INSERT INTO shop.kinds (a, b, raw) VALUES (2, 'half', '\"\\ud800\"')")
    shop.execute("INSERT INTO shop.kinds (a, b, raw) VALUES (3, 'deep', (repeat('[', 129) || repeat(']', 129))::json)")
    finish(relay)
    assert told("kinds") == [
        ('["é\\"",1]', {"op": "insert", "new": {
            "a": "1", "b": 'é"', 'odd "% name': "1.10", "bytes": "\\x00ff", "at": "2026-11-27T12:00:00+00:00", "days": "P1D",
            "day": "2026-11-27", "list": ["1", None], "mood": "ok", "pair": "(1,x)", "raw": {"n": "1.10", "s": "😀"},
            "$place2": "-Infinity"}})]  # fmt: skip
    assert (lost("kinds", 1), lost("kinds", 2)) == (("capture", 2), ("capture", 3))


def test_only_the_named_columns_are_sent(shop: Client, relay: Relay) -> None:
    shop.execute("SELECT topics.capture('shop.orders', 'some', columns => 'state, total')")
    shop.execute("INSERT INTO shop.orders VALUES (1, 'new', 2, '[]')")
    shop.execute("UPDATE shop.orders SET note = '[1]'")
    shop.execute("UPDATE shop.orders SET total = 2.0")
    finish(relay)
    assert [change for _, change in told("some")] == [
        {"op": "insert", "new": {"id": "1", "state": "new", "total": "2"}},
        {"op": "update", "old": {"total": "2"}, "new": {"id": "1", "state": "new", "total": "2.0"}},
    ]


def test_virtual_generated_columns_are_left_out(shop: Client, relay: Relay) -> None:
    """Also from a snapshot, which would fail where such a column cannot be computed."""
    if shop.info.server_version < 180_000:
        pytest.skip("NOT TRIED: this PostgreSQL has no virtual generated columns, which are new in 18")
    shop.execute("""
        CREATE TABLE shop.sums (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2),
                                more int GENERATED ALWAYS AS (n + 1) NOT NULL, part int GENERATED ALWAYS AS (1 / n),
                                thrice int GENERATED ALWAYS AS (n * 3) STORED)""")
    shop.execute("INSERT INTO shop.sums VALUES (1, 0)")
    for parameter in ("columns => 'n, twice'", "key => 'id, twice'"):
        with pytest.raises(psycopg.Error, match=r"twice of .* is a virtual generated column") as refused:
            shop.execute(f"SELECT topics.capture('shop.sums', 'sums', {parameter})".encode())
        assert refused.value.sqlstate == "TP001"
    shop.execute("SELECT topics.capture('shop.sums', 'sums', snapshot => true, on_error => 'fail')")
    finish(relay)
    shop.execute("INSERT INTO shop.sums VALUES (2, 5)")
    shop.execute("UPDATE shop.sums SET n = 6 WHERE id = 2")
    shop.execute("DELETE FROM shop.sums WHERE id = 2")
    finish(relay)
    five, six = ({"id": "2", "n": n, "thrice": thrice} for n, thrice in (("5", "15"), ("6", "18")))
    assert told("sums") == [
        ("1", {"op": "read", "new": {"id": "1", "n": "0", "thrice": "0"}}),
        ("2", {"op": "insert", "new": five}),
        ("2", {"op": "update", "old": {"n": "5", "thrice": "15"}, "new": six}),
        ("2", {"op": "delete", "old": six}),
    ]


def test_a_partitioned_table_is_captured_as_one(shop: Client, relay: Relay) -> None:
    """A row that moves to another partition is an update, or a delete and an insert if that changes the key."""
    shop.execute(
        "CREATE TABLE shop.parts (region text, id int, n int, PRIMARY KEY (region, id)) PARTITION BY LIST (region)"
    )
    shop.execute("CREATE TABLE shop.eu PARTITION OF shop.parts FOR VALUES IN ('eu')")
    shop.execute("CREATE TABLE shop.us PARTITION OF shop.parts FOR VALUES IN ('us')")
    with pytest.raises(psycopg.Error, match="is a partition"):
        shop.execute("SELECT topics.capture('shop.eu', 'parts')")
    shop.execute("SELECT topics.capture('shop.parts', 'parts')")
    shop.execute("INSERT INTO shop.parts VALUES ('eu', 1, 1), ('us', 2, 2)")
    shop.execute("UPDATE shop.parts SET region = 'us', n = 3 WHERE id = 1")
    shop.execute("UPDATE shop.parts SET n = n + 1")
    finish(relay)
    assert sorted(followed(told("parts"))) == ['["us",1]', '["us",2]']
    assert [(tag, change["op"]) for tag, change in told("parts")][2:4] == [
        ('["eu",1]', "delete"),
        ('["us",1]', "insert"),
    ]


DROPS = """
CREATE TABLE shop.parts (id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE shop.eu PARTITION OF shop.parts FOR VALUES IN ('eu');
CREATE TABLE shop.us PARTITION OF shop.parts FOR VALUES IN ('us');
CREATE FUNCTION shop.drop_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN new.id > 1 THEN new END; END $$;
CREATE TRIGGER drop_first BEFORE INSERT ON shop.us FOR EACH ROW EXECUTE FUNCTION shop.drop_first();
"""


def test_a_row_that_a_partition_drops_is_a_loss(shop: Client, relay: Relay) -> None:
    """The other rows of the UPDATE have no old values that are sure to be theirs."""
    shop.execute(DROPS)
    shop.execute("SELECT topics.capture('shop.parts', 'parts')")
    shop.execute("INSERT INTO shop.parts VALUES (1, 'eu'), (2, 'eu'), (3, 'eu')")
    shop.execute("UPDATE shop.parts SET region = 'us'")
    shop.execute("DELETE FROM shop.parts WHERE id = 3")
    finish(relay)
    assert lost("parts", 3) == ("capture", 6)
    assert [(tag, change["op"]) for tag, change in told("parts")][3:] == [('[3,"us"]', "delete")]
    assert shop.execute("SELECT lost, left(error, 32) FROM topics.captures").fetchall() == [
        (3, "a trigger of a partition dropped")
    ]


LABEL = """
CREATE FUNCTION shop.label() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE shop.orders SET state = 'labelled' WHERE state IS NULL;
    RETURN NULL;
END
$$
"""
TRIGGERS = [
    ("TRIGGER label AFTER INSERT ON shop.orders FOR EACH ROW", True),
    ("TRIGGER label AFTER INSERT ON shop.orders FOR EACH STATEMENT", True),
    ("TRIGGER zz_label AFTER INSERT ON shop.orders FOR EACH STATEMENT", False),
    ("CONSTRAINT TRIGGER label AFTER INSERT ON shop.orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW", False),
]


@pytest.mark.parametrize(("trigger", "is_early"), TRIGGERS)
def test_a_trigger_that_changes_its_own_table_arrives_in_order_or_is_warned_of(
    trigger: str, is_early: bool, shop: Client, relay: Relay
) -> None:
    """A foreign key's own triggers are never warned of: PostgreSQL runs what they fire in the right order."""
    shop.execute("ALTER TABLE shop.orders ADD part_of int REFERENCES shop.orders ON DELETE CASCADE")
    shop.execute(LABEL)
    shop.execute(f"CREATE {trigger} EXECUTE FUNCTION shop.label()".encode())
    warnings: list[str | None] = []
    shop.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
    shop.execute("SELECT topics.capture('shop.orders', 'labels')")
    told_of = ["what these triggers change in shop.orders arrives before the changes that fire them: label"]
    assert warnings == (told_of if is_early else [])
    if not is_early:
        shop.execute("INSERT INTO shop.orders VALUES (1), (2)")
        shop.execute("INSERT INTO shop.orders (id, part_of) VALUES (3, 1)")
        shop.execute("DELETE FROM shop.orders WHERE id = 1")
        finish(relay)
        assert followed(told("labels")) == held(shop, "shop.orders")


def test_a_trigger_of_a_partition_is_warned_of(shop: Client) -> None:
    shop.execute(LABEL)
    shop.execute("CREATE TABLE shop.parts (id int PRIMARY KEY) PARTITION BY LIST (id)")
    shop.execute("CREATE TABLE shop.one PARTITION OF shop.parts FOR VALUES IN (1)")
    for name in ("parts", "one"):
        trigger = f"CREATE TRIGGER on_{name} AFTER INSERT ON shop.{name} FOR EACH ROW EXECUTE FUNCTION shop.label()"
        shop.execute(trigger.encode())
    warnings: list[str | None] = []
    shop.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
    shop.execute("SELECT topics.capture('shop.parts', 'parts')")
    (warning,) = warnings
    assert str(warning).endswith(": on_one, on_parts")


REFUSED = [
    ("CREATE TABLE shop.t (a int)", "'shop.t', 't'", "no primary key"),
    ("CREATE TABLE shop.t (a int)", "'shop.t', 't', key => 'a'", "no unique index"),
    ("CREATE TABLE shop.t (a int UNIQUE)", "'shop.t', 't', key => 'a'", "no unique index"),
    ("CREATE TABLE shop.t (a int PRIMARY KEY DEFERRABLE)", "'shop.t', 't'", "no unique index"),
    ("CREATE TABLE shop.t (a int PRIMARY KEY, b int)", "'shop.t', 't', key => 'a, b'", "no unique index"),
    ("CREATE TABLE shop.t (a int PRIMARY KEY)", "'shop.t', 't', columns => 'c'", "no column c"),
    ("CREATE TABLE shop.t (a int PRIMARY KEY)", "'shop.t', 't', on_error => 'ignore'", "expected skip or fail"),
    ("CREATE TABLE shop.t (a int PRIMARY KEY)", "'shop.t', 'a b'", "invalid topic"),
    ("CREATE TABLE shop.t (a int PRIMARY KEY)", "'shop.t', 'bus:t'", "takes events alone"),
    ("CREATE UNLOGGED TABLE shop.t (a int PRIMARY KEY)", "'shop.t', 't'", "durable rows"),
    ("CREATE VIEW shop.t AS SELECT 1", "'shop.t', 't'", "durable rows"),
    ("SELECT 1", "'outbox_emitted', 't'", "is a table of topics"),
    (
        "CREATE TYPE shop.own AS (a int); CREATE TABLE shop.t (own shop.own PRIMARY KEY)",
        "'shop.t', 't', snapshot => true",
        "type of an extension",
    ),
    (
        "CREATE TYPE shop.mood AS ENUM (); CREATE DOMAIN shop.own AS shop.mood; CREATE TABLE shop.t (a shop.own PRIMARY KEY)",
        "'shop.t', 't', snapshot => true",
        "type of an extension",
    ),
    ("SELECT topics.capture('shop.orders', 't')", "'shop.orders', 'u'", "captured already"),
]


@pytest.mark.parametrize(("given", "call", "reason"), REFUSED)
def test_what_cannot_be_captured_is_refused(given: str, call: str, reason: str, shop: Client) -> None:
    with shop.transaction(force_rollback=True):
        shop.execute(given.encode())
        with pytest.raises(psycopg.Error, match=reason) as refused:
            shop.execute(f"SELECT topics.capture({call})".encode())
        assert str(refused.value.sqlstate).startswith("TP")
