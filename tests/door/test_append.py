"""`topics.append` is the append of HTTP, in the transaction of its caller (docs/sql.md)."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import TopicsError
from tests.api.clients import HttpClient
from tests.door.conftest import Session, rolled_back
from tests.examples import examples
from tests.instances import ROOT
from tests.watch.wire import new_name

SQL = list((ROOT / "door" / "sql" / "functions").glob("*.sql"))
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

APPEND = "SELECT first_seq, last_seq FROM topics.append(%s, %s, node => %s, idempotency_key => %s, expected_head => %s)"


def append(app: Session, topic: str, *data: Any, **more: Any) -> tuple[int, int]:
    records = json.dumps([{"data": each} for each in data])
    return appended(app, topic, records, **more)


def appended(
    app: Session, topic: str, records: str, node: str | None = None, key: str | None = None, head: int | None = None
) -> tuple[int, int]:
    row = app.execute(APPEND, (topic, records, node, key, head)).fetchone()
    assert row is not None
    return row[0], row[1]


def test_it_appends_with_the_transaction(app: Session, live: HttpClient, name: str) -> None:
    assert append(app, name, 1, 2) == (1, 2)
    with rolled_back(app):
        assert append(app, name, 3) == (3, 3)
    with app.transaction():
        assert append(app, name, 4) == (3, 3)
        with rolled_back(app):
            assert append(app, name, 5) == (4, 4)
            assert [record["data"] for record in live.diff(name).json["records"]] == [1, 2]
    assert [record["data"] for record in live.diff(name).json["records"]] == [1, 2, 4]


def refused(error: psycopg.Error) -> tuple[str, str]:
    """The code and the sentence of an error of the door."""
    assert (error.sqlstate or "").startswith("TP"), error
    return error.diag.message_detail or "", error.diag.message_primary or ""


TEXTS = st.sampled_from(["a", "order:7", "ü" * 130, "x" * 256, "\0", "x" * 300, 'q"\\', ""])
DATA = st.sampled_from(
    [
        "1",
        "null",
        '{"a": 1,  "a":2}',
        '"\\u0000"',
        '"\\ud800"',
        "1e999",
        "[" * 127 + "]" * 127,
        "[" * 140 + "]" * 140,
        " [1 ]",
    ]
)
METAS = st.sampled_from(
    [
        "null",
        "{}",
        '{"k":  1}',
        "[]",
        '{"$dead_letter_from":1}',
        json.dumps({str(n): n for n in range(65)}),
        '{"_topics_mirror":1}',
    ]
)
RECORD = st.tuples(
    DATA,
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.sampled_from(["null", "{}"]) | METAS,
    st.sampled_from([""] * 8 + ["x", "7"]),
)
CALL = st.tuples(
    st.lists(RECORD, min_size=0, max_size=3),
    st.sampled_from([None, None, "n", "x" * 129]),
    st.sampled_from([None, None, "k1", "k2", "", "k" * 257]),
    st.sampled_from([None, None, None, 0, 1, 2]),
)


def written(data: str, tag: str | None, node: str | None, meta: str, odd: str) -> str:
    record = f'"data":{data},"tag":{json.dumps(tag)},"node":{json.dumps(node)},"meta":{meta}'
    return f"{{{record}}}" if not odd else f'{{{record},"more":1}}' if odd == "x" else f'{{{record},"tag":7}}'


@given(calls=st.lists(CALL, min_size=1, max_size=6))
@settings(
    max_examples=examples(25),
)
def test_it_is_the_append_of_http(app: Session, live: HttpClient, calls: list[Any]) -> None:
    """The same seqs, the same records, and the same errors, with their sentences."""
    ours, theirs = new_name(), new_name()
    for rows, node, key, head in calls:
        records = f"[{','.join(written(*row) for row in rows)}]"
        reply = live.post(
            f"/v0/topics/{theirs}",
            f'{{"records":{records},"node":{json.dumps(node)},"idempotency_key":{json.dumps(key)},'
            f'"expected_head":{json.dumps(head)}}}'.encode(),
        )
        if reply.status < 300:
            assert appended(app, ours, records, node, key, head) == (reply.json["first_seq"], reply.json["last_seq"])
        else:
            with pytest.raises(psycopg.Error) as error:
                appended(app, ours, records, node, key, head)
            code, sentence = refused(error.value)
            assert code == reply.code
            if not any(
                "[" * 140 in row[0] or "ud8" in row[0] for row in rows
            ):  # the door says neither how deep nor where
                assert sentence == reply.json["error"]["message"].replace(theirs, ours)
    assert read(app, ours) == over_http(live, theirs)


def read(app: Session, topic: str) -> list[tuple[Any, ...]]:
    try:
        rows = app.execute("SELECT seq, node, tag, meta::text, data::text FROM topics.read(%s)", [topic]).fetchall()
    except psycopg.Error as error:
        assert refused(error)[0] == "topic_not_found"
        return []
    return rows


def over_http(live: HttpClient, topic: str) -> list[tuple[Any, ...]]:
    reply = live.diff(topic, include_tags=True)
    if reply.status == 404:
        return []
    records = msgspec.json.decode(reply.body, type=Answer).records
    return [
        (each.seq, each.node, each.tag, bytes(each.meta).decode() or None, bytes(each.data).decode())
        for each in records
    ]


class Shown(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")
    data: msgspec.Raw
    node: str | None = msgspec.field(name="$node", default=None)
    tag: str | None = msgspec.field(name="$tag", default=None)
    meta: msgspec.Raw = msgspec.Raw(b"")


class Answer(msgspec.Struct):
    records: list[Shown]


def test_a_record_with_a_nul_may_have_any_other_escape(app: Session, live: HttpClient, name: str) -> None:
    """The functions put another escape in the place of a NUL, and a client can send a record that has very many of them."""
    escapes = "".join(rf"\u{code:04x}\u{code:04X}" for code in (*range(1, 0xD800), *range(0xE000, 0x10000)))
    data = rf'"\u0000{escapes}"'
    records = f'[{{"data":{data}}},{{"data":2}}]'
    queue = f"{name}-jobs"
    live.put(f"/v0/topics/{queue}", {"type": "queue"})
    for topic in (name, queue):
        assert live.post(f"/v0/topics/{topic}", f'{{"records":{records}}}'.encode()).status < 300
    read = "SELECT data::text FROM topics.read(%s, %s, 2)"
    assert app.execute(read, [name, 0]).fetchall() == [(data,), ("2",)]
    assert appended(app, name, records) == (3, 4)
    assert app.execute(read, [name, 2]).fetchall() == [(data,), ("2",)]
    claimed = app.execute("SELECT seq, lease_id IS NULL, data::text FROM topics.claim(%s, 'w', 2)", [queue]).fetchall()
    assert claimed == [(1, False, data), (2, False, "2")]


def test_a_key_counts_on_both_ways(app: Session, live: HttpClient, name: str) -> None:
    records = [{"data": {"a": 1}, "tag": "t", "meta": {"m": 1}}, {"data": "ü"}]
    text = json.dumps(records)
    assert appended(app, name, text, "n", "by-sql") == (1, 2)
    again = live.post(f"/v0/topics/{name}", f'{{"records":{text},"node":"n","idempotency_key":"by-sql"}}'.encode())
    assert (again.json["first_seq"], again.json["deduped"]) == (1, True)
    other = live.post(f"/v0/topics/{name}", f'{{"records":{text},"node":"m","idempotency_key":"by-sql"}}'.encode())
    assert other.code == "idempotency_mismatch"

    body = f'{{"records":{text},"node":"n","idempotency_key":"by-http"}}'.encode()
    assert live.call("POST", f"/v0/topics/{name}", body, traceparent=TRACE).json["first_seq"] == 3
    assert appended(app, name, text, "n", "by-http") == (3, 4)
    with pytest.raises(psycopg.Error) as error:
        appended(app, name, text, "m", "by-http")
    assert error.value.sqlstate == "TP013"
    live.post(f"/v0/topics/{name}/delete", {"before_seq": 5})
    assert appended(app, name, text, "m", "by-http") == (3, 4)  # the records are gone, and the key alone counts


def test_the_config_counts(app: Session, live: HttpClient, name: str) -> None:
    full, evicts, queue, sealed = (f"{name}-{kind}" for kind in ("full", "evicts", "queue", "sealed"))
    live.put(f"/v0/topics/{full}", {"cap_records": 2, "discard": "reject"})
    assert append(app, full, 1, 2) == (1, 2)
    with pytest.raises(psycopg.Error, match=f"topic '{full}' has no room: 2 of at most 2 records"):
        append(app, full, 3)
    live.put(f"/v0/topics/{evicts}", {"cap_records": 2, "durability": "memory"})
    assert append(app, evicts, 1, 2, 3) == (1, 3)
    rows = app.execute("SELECT seq, gap_from, reason FROM topics.read(%s)", [evicts]).fetchall()
    assert rows == [(1, 1, "cap"), (2, None, None), (3, None, None)]
    live.put(f"/v0/topics/{queue}", {"type": "queue", "unique_tags": True})
    jobs = '[{"data": 1, "tag": "a"}, {"data": 2, "tag": "b"}]'
    assert appended(app, queue, jobs, key="k") == (1, 2)
    assert appended(app, queue, '[{"data": 9, "tag": "b"}, {"data": 3, "tag": "c"}]') == (3, 3)
    assert appended(app, queue, jobs, key="k")[1] == 3  # nothing was written, as over HTTP
    with pytest.raises(psycopg.Error, match=r"records\[0\] and records\[1\] both have the"):
        appended(app, queue, '[{"data": 9, "tag": "d"}, {"data": 3, "tag": "d"}]')
    live.put(f"/v0/topics/{sealed}", {"sealed": True})
    with pytest.raises(psycopg.Error) as error:
        append(app, sealed, 1)
    assert refused(error.value)[0] == "topic_sealed"


def test_a_number_beyond_a_double_is_refused_where_the_topic_says_so(app: Session, live: HttpClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"numbers": "double"})
    assert appended(app, name, '[{"data": 1e308, "meta": {"a": "1e400"}}]') == (1, 1)
    for record, field in (
        ('{"data": {"amounts": [1, {"a b": -1e400}]}}', 'records[1].data.amounts[1]["a b"]'),
        ('{"data": 1, "meta": {"x": 1e309}}', "records[1].meta.x"),
    ):
        over_http = live.post(f"/v0/topics/{name}", f'{{"records": [{{"data": 1}}, {record}]}}'.encode())
        with pytest.raises(psycopg.Error) as error:
            appended(app, name, f'[{{"data": 1}}, {record}]')
        assert refused(error.value) == (over_http.code, over_http.json["error"]["message"])
        assert refused(error.value)[1].startswith(f"{field} is beyond the range of a double")
    assert append(app, name, 2) == (2, 2)


def test_a_topic_that_nobody_may_create_is_not_created(app: Session, owner: Session, name: str) -> None:
    owner.execute("UPDATE door_limits SET max_topics = 1")
    try:
        with pytest.raises(psycopg.Error) as error:
            append(app, name, 1)
    finally:
        owner.execute("UPDATE door_limits SET max_topics = 100000")
    assert refused(error.value)[0] == "throttled"


def test_a_cursor_above_the_cap_is_not_created(app: Session, owner: Session, name: str) -> None:
    append(app, name, 1)
    app.execute("SELECT topics.commit_cursor(%s, 'a', 0)", [name])
    owner.execute("UPDATE door_limits SET max_cursors = 1")
    try:
        app.execute("SELECT topics.commit_cursor(%s, 'a', 1)", [name])
        with pytest.raises(psycopg.Error) as error:
            app.execute("SELECT topics.commit_cursor(%s, 'b', 1)", [name])
    finally:
        owner.execute("UPDATE door_limits SET max_cursors = 10000")
    assert refused(error.value) == ("throttled", "the cap of 1 is reached (cursors_per_topic): try again later")


def test_a_watcher_gets_it_within_a_second_or_so(app: Session, live: HttpClient, name: str) -> None:
    append(app, name, 1)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(live.diff, name, from_seq=1, wait_ms=30_000)
        with app.transaction():
            append(app, name, 2)
        assert [record["data"] for record in waiting.result().json["records"]] == [2]


def test_every_refusal_has_its_own_sqlstate(owner: Session) -> None:
    codes = {kind.code for kind in all_errors()}
    states = {code: owner.execute("SELECT door_sqlstate(%s)", [code]).fetchone()[0] for code in codes}  # type: ignore[index]
    known = {code: state for code, state in states.items() if state}
    assert len(set(known.values())) == len(known)
    page = (ROOT / "docs" / "sql.md").read_text()
    assert dict(re.findall(r"^\| `(\w+)` \| `(TP\d+)` \|", page, re.MULTILINE)) == known
    assert set(re.findall(r"door_refuse\(\s*'(\w+)'", "".join(file.read_text() for file in SQL))) <= known.keys()


def all_errors() -> list[type[TopicsError]]:
    found, left = [], [TopicsError]
    while left:
        left += (kind := left.pop()).__subclasses__()
        found.append(kind)
    return found
