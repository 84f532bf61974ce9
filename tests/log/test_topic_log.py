"""The view for analysts has every visible record of a topic, as readers get it (topics/sql/views/topic_log.sql)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.db.utils import ProgrammingError

from base.clock import now_ms
from tests.log.test_delete import NOW, write
from tests.log.test_reclaim import mirror
from tests.scripts import append, delete_records, delete_topic, diff, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config
from topics.read.diff import Diff

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_memory")]


def rows(sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments)
        return cursor.fetchall()


def logged(topic: str) -> list[dict[str, Any]]:
    """The view's rows as the wire shows them."""
    shown = []
    for seq, ts, node, tag, meta, data in rows(
        "SELECT seq, ts, node, tag, meta::text, data::text FROM topic_log WHERE topic = %s ORDER BY seq", topic
    ):
        record = {"$seq": seq, "$ts": ts, "$node": node, "$tag": tag, "meta": json.loads(meta) if meta else None}
        shown.append({name: value for name, value in record.items() if value is not None} | {"data": json.loads(data)})
    return shown


def read(topic: str) -> list[dict[str, Any]]:
    records = diff(topic, Diff(include_tags=True, limit=1000), now_ms()).records
    return json.loads(f"[{records or ''}]")  # type: ignore[no-any-return]


def test_it_shows_what_readers_see() -> None:
    write("t", *"abcab", data=b'{"a": 1}')
    mirror("t", "stamped", guarantee="exactly_once", preserve_node=False)
    write("stamped", "own")
    mirror("stamped", "last", preserve_tag=False)
    delete_records("t", None, "b", NOW)
    delete_records("stamped", 2, None, NOW)
    delete_records("stamped", None, "c", NOW)
    delete_topic("t", False, NOW)
    assert len(logged("stamped")) == 4
    assert logged("stamped") == read("stamped")
    assert len(logged("last")) == 6
    assert logged("last") == read("last")
    assert logged("t") == []


def test_a_range_is_the_same_rows() -> None:
    write("t", *"abcdef")
    mirror("t", "dest")
    write("dest", *"xyz")
    delete_records("dest", None, "c", NOW)
    for topic in ("t", "dest"):
        for first, last in ((1, 9), (2, 4), (5, 8), (4, 4), (10, 20)):
            bounded = rows("SELECT seq, data::text FROM topic_log_range(%s, %s, %s) ORDER BY seq", topic, first, last)
            whole = "SELECT seq, data::text FROM topic_log WHERE topic = %s AND seq BETWEEN %s AND %s ORDER BY seq"
            assert bounded == rows(whole, topic, first, last)


def test_what_is_over_its_time_is_not_shown() -> None:
    put_topic("t", Config(ttl_ms=60_000), NOW)
    write("t", "a", now=now_ms() - 61_000)
    write("t", "b", now=now_ms())
    assert [record["$tag"] for record in logged("t")] == ["b"]


def test_each_row_says_where_it_is_stored() -> None:
    write("t", "a")
    mirror("t", "middle")
    mirror("middle", "last")
    delete_topic("t", False, NOW)
    assert rows("SELECT home_topic, home_seq, path FROM topic_log WHERE topic = 'last'") == [
        ("t", 1, ["t>middle", "middle>last"])
    ]


def test_an_analyst_may_have_other_settings() -> None:
    wanted = Append([NewRecord(msgspec.Raw(b"1"), meta=msgspec.Raw(meta)) for meta in (b"{ }", b'{"a": "}"}')])
    append("t", wanted, check_rows(wanted), NOW)
    mirror("t", "stamped", guarantee="exactly_once")
    shown = read("stamped")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL standard_conforming_strings = off")
    assert logged("stamped") == shown


@pytest.mark.parametrize("secret", ["topics_apikey", "topics_auditentry", "auth_user", "django_session"])
def test_analysts_read_the_log_and_nothing_secret(secret: str) -> None:
    write("t", "a")
    with connection.cursor() as cursor:
        cursor.execute("GRANT topics_analyst TO current_user")
        cursor.execute("SET LOCAL ROLE topics_analyst")
    assert rows("SELECT count(*) FROM topic_log WHERE topic = 't'") == [(1,)]
    assert rows("SELECT count(*) FROM topic_log_range('t', 1, 1)") == [(1,)]
    with pytest.raises(ProgrammingError, match="permission denied"):
        rows(f"SELECT * FROM {secret}")


def test_analysts_change_nothing() -> None:
    with connection.cursor() as cursor:
        cursor.execute("GRANT topics_analyst TO current_user")
        cursor.execute("SET LOCAL ROLE topics_analyst")
    with pytest.raises(ProgrammingError, match="permission denied"):
        rows("DELETE FROM topics_record")
