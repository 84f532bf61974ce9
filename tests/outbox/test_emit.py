"""topics.emit and topics.emit_many: what they write, and what they refuse in the caller's transaction."""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base import clock
from base.bounds import SERVERS_OWN
from base.clock import now_ms
from base.errors import TopicsError
from outbox.relay import Relay
from store import server_clock
from tests.examples import examples
from tests.outbox.clients import Clients, connecting, finish, read
from tests.scripts import append, diff
from topics.append.records import Append, NewRecord, check_rows
from topics.read.diff import Diff


def test_a_record_arrives_whole(client: Clients, relay: Relay) -> None:
    one = client()
    one.execute("""SELECT topics.emit('orders', ' {"b": 1,  "a": 1.10} ', 't', 'n', '{"m": null}', 'k')""")
    one.execute("""SELECT topics.emit(topic => 'orders', data => 'null')""")
    finish(relay)
    first, second = json.loads(
        f"[{diff('orders', Diff(from_seq=0, limit=9, include_tags=True), now_ms()).records}]", parse_float=str
    )
    assert (first["data"], first["$tag"], first["$node"], first["meta"]) == (
        {"b": 1, "a": "1.10"},
        "t",
        "n",
        {"m": None},
    )
    assert second["data"] is None
    assert one.execute("SELECT bytes FROM topics_topichead").fetchone() == (len('{"b": 1,  "a": 1.10}{"m": null}null'),)


def test_the_clock_of_a_worker_counts_neither_for_the_time_of_a_record_nor_for_its_key(
    client: Clients, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, hour_ms = client(), 3_600_000
    one.execute("SELECT topics.emit('orders', '1', key => 'k')")
    finish(relay)
    monkeypatch.setattr(server_clock.follow.__self__, "looked", -math.inf)
    monkeypatch.setattr(clock.process, "ahead_ms", clock.process.ahead_ms - hour_ms)
    one.execute("SELECT topics.emit('orders', '1', key => 'k')")
    one.execute("SELECT topics.emit('orders', '2')")
    finish(relay)
    assert read("orders") == [1, 2]
    latest = one.execute("SELECT max(ts) - extract(epoch FROM clock_timestamp()) * 1000 FROM topics_record").fetchone()
    assert latest is not None
    assert latest[0] < hour_ms // 2


def test_many_records_arrive_in_their_order(client: Clients, relay: Relay) -> None:
    one = client()
    records = [{"data": n} for n in range(100)] + [{"data": "last", "tag": "t", "key": "k", "meta": None}]
    assert one.execute("SELECT topics.emit_many('many', %s::json)", [json.dumps(records)]).fetchone() == (101,)
    assert one.execute("SELECT topics.emit_many('many', '[]')").fetchone() == (0,)
    finish(relay)
    assert read("many") == [*range(100), "last"]


def test_a_rolled_back_record_never_arrives(client: Clients, relay: Relay) -> None:
    one = client()
    with one.transaction() as whole:
        one.execute("SELECT topics.emit('t', '1')")
        with one.transaction() as savepoint:
            one.execute("SELECT topics.emit('t', '2')")
            raise psycopg.Rollback(savepoint)
    with one.transaction() as whole:
        one.execute("SELECT topics.emit('t', '3')")
        raise psycopg.Rollback(whole)
    finish(relay)
    assert read("t") == [1]


def test_a_key_is_appended_once(client: Clients, relay: Relay) -> None:
    one = client()
    for _ in range(2):
        one.execute("SELECT topics.emit('t', '1', key => 'k'), topics.emit('t', '2', key => 'k2')")
    one.execute("SELECT topics.emit('t', '1', key => 'k')")
    finish(relay)
    assert read("t") == [1, 2]


DEEP = "[" * 129 + "1" + "]" * 129
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"topic": "a b"}, "TP001"),
    ({"topic": "x" * 256}, "TP001"),
    ({"tag": "é" * 129}, "TP001"),
    ({"node": "n" * 129}, "TP001"),
    ({"meta": "[1]"}, "TP001"),
    ({"meta": json.dumps({"m": "x" * 16384})}, "TP001"),
    ({"meta": json.dumps({f"k{n}": 1 for n in range(65)})}, "TP001"),
    *(({"meta": json.dumps({name: 1})}, "TP001") for name in sorted(SERVERS_OWN)),
    ({"meta": '{"\\u005ftopics_mirror": 1}'}, "TP001"),
    ({"meta": f'{{"m": {DEEP}}}'}, "TP001"),
    ({"data": DEEP}, "TP001"),
    ({"data": json.dumps("x" * 1024 * 1024)}, "TP003"),
    ({"data": json.dumps("x" * (1024 * 1024 - 5)), "meta": '{"m": 1}'}, "TP003"),
]


def over_the_wire(topic: str, record: NewRecord) -> None:
    asked = Append([record])
    append(topic, asked, check_rows(asked), now_ms())


@pytest.mark.parametrize(("given", "state"), REFUSED)
def test_what_an_append_refuses_is_refused_in_the_transaction(
    given: dict[str, Any], state: str, client: Clients
) -> None:
    """With the code and the sentence of the append over HTTP."""
    wanted = {"topic": "t", "data": "1", "tag": None, "node": None, "meta": None, **given}
    record = NewRecord(msgspec.Raw(wanted["data"].encode()), tag=wanted["tag"], node=wanted["node"])
    if wanted["meta"]:
        record.meta = msgspec.Raw(wanted["meta"].encode())
    with pytest.raises(TopicsError) as over_http:
        over_the_wire(wanted["topic"], record)
    emit = "SELECT topics.emit(%(topic)s, %(data)s, %(tag)s, %(node)s, %(meta)s)"
    with pytest.raises(psycopg.Error) as error:
        client().execute(emit, wanted)
    assert (error.value.sqlstate, error.value.diag.message_detail) == (state, over_http.value.code)
    told = str(error.value.diag.message_primary)
    assert told.split(":")[-1] == over_http.value.message.split(":")[-1]


@pytest.mark.parametrize(
    "records", ["null", "{}", "[1]", '[{"dat": 1}]', '[{"tag": "t"}]', '[{"data": 1}, {"data": 1, "key": ""}]']
)
def test_an_invalid_array_writes_nothing(records: str, client: Clients) -> None:
    one = client()
    with pytest.raises(psycopg.Error) as error:
        one.execute("SELECT topics.emit_many('t', %s)", [records])
    assert error.value.sqlstate == "TP001"
    assert one.execute("SELECT count(*) FROM outbox_emitted").fetchone() == (0,)


VALUES: dict[str, list[str | None]] = {
    "topic": ["t", "t\n", "x" * 255, "", None],
    "data": ["1", "null", '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', DEEP, DEEP[1:-1], json.dumps([[]] * 200), None],
    "tag": [None, "", "t", "é" * 128, "é" * 129],
    "node": [None, "n", "n" * 129],
    "meta": [None, "null", "{}", "[]", '{"\\u0000": "\\u0000"}', '{"a:b": ":"}', '{"_topics_router": {}}', '{"$a": 1}',
             json.dumps({f"k{n}": 1 for n in range(64)}), json.dumps({"m": list(range(100))})],
    "key": [None, "", "k", "é" * 256, "k" * 257],
}  # fmt: skip


@given(st.fixed_dictionaries({name: st.just(each[0]) | st.sampled_from(each) for name, each in VALUES.items()}))
@settings(max_examples=examples(60))
def test_a_look_at_first_sight_allows_no_more_than_the_whole_check(client: Clients, wanted: dict[str, Any]) -> None:
    def outcome(call: str) -> object:
        try:
            one.execute(f"SELECT topics.{call}", wanted)
        except psycopg.Error as error:
            return error.sqlstate, error.diag.message_primary
        return one.execute(
            "DELETE FROM outbox_emitted RETURNING topic, data::text, tag, node, meta::text, key, size"
        ).fetchall()

    with ExitStack() as stack:
        one = connecting(stack)
        named = (
            "topic => %(topic)s, data => %(data)s, tag => %(tag)s, node => %(node)s, meta => %(meta)s, key => %(key)s"
        )
        assert outcome(f"emit({named})") == outcome(f"emit_checked({named})")


def test_a_login_without_rights_on_the_tables_can_emit(client: Clients, relay: Relay) -> None:
    one = client()
    one.execute("DROP ROLE IF EXISTS emit_tester")
    one.execute("CREATE ROLE emit_tester NOLOGIN")
    one.execute("GRANT emit_tester TO CURRENT_USER")
    one.execute("GRANT topics_writer TO emit_tester")
    try:
        one.execute("SET ROLE emit_tester")
        one.execute("CREATE TEMP TABLE outbox_emitted (topic text)")  # the function must not take this one
        one.execute("SET search_path = pg_temp")
        one.execute("SELECT topics.emit('t', '1')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            one.execute("SELECT FROM public.outbox_emitted")
    finally:
        one.execute("RESET ROLE")
        one.execute("DROP OWNED BY emit_tester")
        one.execute("DROP ROLE emit_tester")
    finish(relay)
    assert read("t") == [1]
