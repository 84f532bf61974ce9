"""The record browser: whatever is deleted, forwarded and filtered, paging shows each record once, and in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote_plus

import msgspec
import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from base.clock import now_ms
from console.objects import topic
from console.records import browse, records
from console.records.records import RecordFilter, RecordsPage
from routers.routers import RouterConfig
from store.codec import Arguments, Rows
from store.database import prepared
from tests.admin.pages import put, text
from tests.scripts import append, catch_up, delete_records, delete_seqs, delete_topic, put_router
from topics.append.records import Append, NewRecord, check_rows
from topics.models import Record, Topic
from topics.read.diff import Diff

TAGS = (None, "a", "ab", "b")
NODES = (None, "n1", "n2")


def write(name: str, rows: list[tuple[str | None, str | None]], ago_ms: int = 0) -> Topic:
    wanted = Append([NewRecord(msgspec.Raw(b"%d" % place), tag, node) for place, (tag, node) in enumerate(rows)])
    append(name, wanted, check_rows(wanted), now_ms() - ago_ms)
    return Topic.objects.select_related("head").get(name=name)


def pages(topic: Topic, wanted: RecordFilter, limit: int, up: bool) -> list[RecordsPage]:
    """All pages of a topic, in the order in which they are turned."""
    head = topic.head
    found, start = [], head.floor_seq + 1 if up else head.head_seq
    while head.floor_seq < start <= head.head_seq:
        page = records.page(topic.pk, topic.name, head.floor_seq, head.head_seq, start, up, wanted, limit)
        assert page.lowest <= page.highest
        assert (page.lowest if up else page.highest) == start
        found.append(page)
        start = page.highest + 1 if up else page.lowest - 1
    return found


def passes(row: records.ShownRecord, wanted: RecordFilter) -> bool:
    tagged = wanted.tag is None or (
        (row.tag or "").startswith(wanted.prefix) and row.tag is not None
        if wanted.prefix is not None
        else row.tag == wanted.tag
    )
    found = wanted.data is None or wanted.data in row.data
    return tagged and found and (wanted.node is None or row.node == wanted.node)


@settings(max_examples=25)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(NODES)), min_size=1, max_size=6),
        min_size=1,
        max_size=6,
    ),
    gone=st.sampled_from([None, "a", "b"]),
    before=st.integers(0, 8),
    wanted=st.builds(
        RecordFilter,
        st.sampled_from([None, "a", "a*", "b", "none"]),
        st.sampled_from([None, "n1"]),
        st.sampled_from([None, records.pattern_of("1")]),
    ),
    limit=st.integers(1, 7),
    up=st.booleans(),
)
def test_paging_shows_each_record_once(db, monkeypatch, batches, gone, before, wanted, limit, up) -> None:
    monkeypatch.setattr(records, "FIRST_LOOK", 2)
    monkeypatch.setattr(records, "MOST_LOOKED", 8)
    name = f"t{now_ms()}-{id(batches)}"
    put_router(f"{name}-r", RouterConfig(source=f"{name}-home", dest=name), now_ms())
    for place, batch in enumerate(batches):  # own records and forwarded ones, in turn
        write(f"{name}-home" if place % 2 else name, batch)
        catch_up(Topic.objects.get(name=name).pk, now_ms())
    delete_records(name, before, None if gone is None else ("tag", "Eq", gone), now_ms())
    topic = Topic.objects.select_related("head").get(name=name)
    everything = pages(topic, RecordFilter(), 1000, False)
    whole = [row for page in everything for row in page.rows]
    assert [row.seq for row in whole] == sorted((row.seq for row in whole), reverse=True)
    assert len(whole) == topic.head.count
    found = pages(topic, wanted, limit, up)
    rows = [row for page in (reversed(found) if up else found) for row in page.rows]
    assert [row.seq for row in rows] == [row.seq for row in whole if passes(row, wanted)]


def test_a_tag_is_found_in_more_pieces_than_one_page_looks_into(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_SPANS", 2)
    put_router("a->b", RouterConfig(source="a", dest="b"), now_ms())
    for tag in ("x", "y", "y", "y", "x"):
        write("a", [(tag, None)])
        catch_up(Topic.objects.get(name="b").pk, now_ms())
        write("b", [("y", None)])
    topic = Topic.objects.select_related("head").get(name="b")
    for up in (False, True):
        found = [row for page in pages(topic, RecordFilter("x"), 10, up) for row in page.rows]
        assert sorted(row.home_seq for row in found) == [1, 5]


def test_slices_cover_every_seq_once(db: None) -> None:
    topic = put("a", *map(str, range(200)))
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_record SET ts = 1000000 + seq * 977 WHERE topic_id = %s", [topic.pk])
        cursor.execute("UPDATE topics_topichead SET last_ts = 1000000 + 200 * 977 WHERE topic_id = %s", [topic.pk])
    found = records.slices(topic.pk)
    assert sum(each.seqs for each in found) == 200
    assert found[0].first_seq == 1
    assert found[-1].last_seq == 200
    assert max(each.height for each in found) == 100.0


@pytest.mark.parametrize("statements", [0, 1])
def test_a_topic_that_is_deleted_meanwhile_has_no_slices(
    db: None, monkeypatch: pytest.MonkeyPatch, statements: int
) -> None:
    """After so many statements of the picture."""
    topic = put("a", "1", "2")
    Record.objects.filter(topic_id=topic.pk, seq=1).update(ts=1)
    begun: list[str] = []

    def asked(statement: str, arguments: Arguments) -> Rows:
        if len(begun) == statements:
            delete_topic("a", False, now_ms())
        begun.append(statement)
        return prepared(statement, arguments)

    monkeypatch.setattr(records, "prepared", asked)
    assert records.draw_slices(topic.pk) == []
    assert len(begun) == statements + 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_on_lines_is_the_same_json(value: object) -> None:
    text = msgspec.json.encode(value)
    assert msgspec.json.decode(browse.indented(text.decode())) == msgspec.json.decode(text)


@pytest.mark.parametrize("write", [browse.indented, browse.indented_by_tokens])
def test_tokens_stay_as_they_were_sent(write: Callable[[str], str]) -> None:
    assert write('{"a":1.0E+05,"a":[ ],"b":{"c":"{,}"}}') == (
        '{\n  "a": 1.0E+05,\n  "a": [],\n  "b": {\n    "c": "{,}"\n  }\n}'
    )


def test_json_that_was_cut_or_is_deep_is_shown_all_the_same() -> None:
    assert browse.indented('{"a":[1,{"b":"c') == '{\n  "a": [\n    1,\n    {\n      "b": "c'
    assert browse.indented("[" * 2000 + "]" * 2000).count("[") == 2000


def test_what_a_record_says_of_itself() -> None:
    assert browse.stamps('{"$seq":1,"$ts":5,"$tag":"a","data":{"$ts":6}}') == browse.Stamps(5, "a", None)
    assert browse.stamps('{"$ts":5,"data":' + "[" * 5000 + "]" * 5000 + "}") is None


def test_a_long_record_is_cut_in_the_list(browser: Client) -> None:
    put("a", f'"{"x" * records.MOST_SHOWN}"', f'"{"y" * (records.MOST_SHOWN - 2)}"')
    page = browser.get("/admin/topic/a/records/").content.decode()
    assert page.count("Show the whole record") == 1
    assert re.findall(r'<pre class="json">&quot;(x+)\n…', page) == ["x" * (records.SHOWN_OF_LONGER - 1)]
    assert "y" * (records.MOST_SHOWN - 2) in page


def test_links_keep_the_filters_and_leave_the_place(browser: Client) -> None:
    write("a", [("x&y", "n1")], ago_ms=60_000)
    write("a", [("x&y", "n1")] * 2)
    page = browser.get("/admin/topic/a/records/", {"before": "3", "node": "n1", "tag": "x*"}).content.decode()
    assert set(re.findall(r'<td><a href="([^"]*)">', page)) == {"?node=n1&amp;tag=x%26y"}
    assert "tag=x%2A" in page.partition('rel="prev"')[2]
    bars = re.findall(r'<a href="([^"]*)" class="here" aria-label="(\d+) seqs', page)
    assert bars[0] == ("?node=n1&amp;tag=x%2A&amp;seq=1", "1")


def test_the_same_records_as_a_reader_gets(db: None) -> None:
    from tests.scripts import diff

    topic = write("a", [("x", "n1")] * 5)
    read = msgspec.json.decode(f"[{diff('a', Diff(include_tags=True), now_ms()).records}]")
    (page,) = pages(topic, RecordFilter(), 100, False)
    assert [(row.seq, row.ts, row.tag, row.node) for row in reversed(page.rows)] == [
        (each["$seq"], each["$ts"], each["$tag"], each["$node"]) for each in read
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("total=19.9", [1, 2, 3]),
        ("total = 19.9", [1, 2]),
        ("total=19", [3]),
        ("id=x(1", [2]),
        ('"total":', [1]),
        (".9", [1, 2, 3]),
        ("x(1", [2]),
        ("=", [3]),
        ('say=a "b"', [4]),
    ],
)
def test_data_is_found_by_a_text_and_by_a_member(browser: Client, asked: str, found: list[int]) -> None:
    put("a", '{"total":19.9}', '{"order": {"total" : "19.9", "id": "x(1"}}', '"total=19.9"', r'{"say": "a \"b\""}')
    page = browser.get("/admin/topic/a/records/", {"data": asked}).content.decode()
    assert sorted(map(int, re.findall(r'href="/admin/topic/a/records/(\d+)/"', page))) == found
    if found:
        assert f"data={quote_plus(asked)}" in page.partition("/admin/download/a.csv")[2]


def test_a_search_in_large_data_stops_and_says_how_far_it_came(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "SEARCH_SECONDS", -1.0)
    write("a", [(None, None)] * 250)
    page = text(browser.get("/admin/topic/a/records/", {"data": "none"}).content.decode())
    assert "Nothing between seq 151 and 250 matches the filters. Continue with older records." in page


def test_a_record_leads_to_its_neighbours_and_to_where_it_went(browser: Client) -> None:
    put_router("a->b", RouterConfig(source="a", dest="b", start="earliest"), now_ms())
    put_router("b->c", RouterConfig(source="b", dest="c", start="earliest"), now_ms())
    put("a", "1", "2", "3", tag="x")
    for name in ("b", "c"):
        catch_up(Topic.objects.get(name=name).pk, now_ms())
    delete_seqs("a", [2], now_ms())
    page = browser.get("/admin/topic/a/records/1/").content.decode()
    assert 'rel="next" href="/admin/topic/a/records/3/"' in page
    assert 'rel="prev"' not in page
    assert "Also in b seq 1 , c seq 1 ." in text(page)
    assert "/v0/topics/a/records/1" in page
    assert "Also in b seq 3 ." in text(browser.get("/admin/topic/c/records/3/").content.decode())


def test_a_record_that_went_to_many_topics_names_the_first(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "MOST_DESTS", 2)
    put("a", "1")
    for name in ("b", "c", "d"):
        put_router(f"a->{name}", RouterConfig(source="a", dest=name, start="earliest"), now_ms())
        catch_up(Topic.objects.get(name=name).pk, now_ms())
    page = browser.get("/admin/topic/a/records/1/").content.decode()
    assert "Also in b seq 1 , c seq 1 . There are more: all routers from its topic ." in text(page)
    page = browser.get("/admin/topic/d/records/1/").content.decode()
    assert "Also in b seq 1 , c seq 1 ." in text(page)
    assert "There are more" not in page
