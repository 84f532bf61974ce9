"""Topics that are made at the same time share a transaction: each is there once, and told of by whoever made it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from django.db import connection, connections

from base.errors import InvalidRequest
from store import loop
from store.database import prepared
from store.loop import here
from tests import steps
from tests.deadlines import DEADLINE
from tests.log.test_delete import NOW, head, read
from tests.scripts import append, look_up, put_topic
from topics.append.appending import append as appending
from topics.append.first import First
from topics.append.records import Append, NewRecord, check_rows
from topics.append.statements import Appended
from topics.cache import cached, forget_all
from topics.config import Config, Creation, as_dict, configured, creating
from topics.models import AuditEntry, Topic, TopicHead
from wire.access.actor import Actor, acting

pytestmark = pytest.mark.django_db(transaction=True)
Outcome = int | Appended | BaseException | None


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


def creation(name: str, *, by: str = "", **fields: Any) -> Creation:
    with acting(lambda: Actor(by, by, "")):
        return Creation(name, fields, NOW, noted=bool(by))


def first(name: str, records: int = 1, **fields: Any) -> First:
    """An append to a topic that is not there."""
    wanted = Append([NewRecord(msgspec.Raw(b'"%d"' % n), **fields) for n in range(records)])
    return First(name, check_rows(wanted), NOW)


def together(*asked: Creation | First) -> list[Outcome]:
    """What comes of them, when they arrive while another is under way."""
    return steps.together(first("first") if isinstance(asked[0], First) else creation("first"), *asked)


def test_each_is_made_as_it_was_asked_for_and_noted_with_who_asked() -> None:
    done = together(creation("a", by="ann", cap_records=5), creation("b"), creation("c", by="carl", priority=-3))
    topics = {topic.name: topic for topic in Topic.objects.exclude(name="first")}
    assert [topics[name].id for name in "abc"] == done
    assert (topics["a"].cap_records, topics["b"].cap_records, topics["c"].priority) == (5, 0, -3)
    assert TopicHead.objects.filter(topic__in=topics.values(), head_seq=0, version=1).count() == 3
    noted = AuditEntry.objects.order_by("name").values_list("name", "actor", "action", "before")
    assert list(noted) == [("a", "ann", "create", None), ("c", "carl", "create", None)]
    assert AuditEntry.objects.get(name="a").after == as_dict(configured({"cap_records": 5}))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM topics_topic WHERE name IN ('a', 'b', 'c')")
        assert cursor.fetchone() == (1,)


def test_a_name_that_is_taken_is_made_by_nobody_and_by_one_where_several_want_it() -> None:
    put_topic("taken", Config(cap_records=1), NOW)
    before = AuditEntry.objects.count()
    done = together(*[creation(name, by="ann", cap_records=2) for name in ("taken", "new", "new", "other")])
    assert (done[0], sorted(each is None for each in done[1:3])) == (None, [False, True])
    assert {done[1], done[2]} == {None, look_up("new").id}
    assert look_up("taken").cap_records == 1
    assert AuditEntry.objects.count() == before + 2


def test_what_is_wrong_with_one_is_no_others_trouble() -> None:
    wrong, unsendable, good = together(creation("a", dead_letter="\0"), creation("b", priority=object()), creation("c"))
    assert isinstance(wrong, Exception)
    assert isinstance(unsendable, TypeError)
    assert good == look_up("c").id
    assert set(Topic.objects.values_list("name", flat=True)) == {"first", "c"}


def test_two_batches_of_the_same_topics_do_not_wait_for_each_other_for_ever() -> None:
    made: list[str] = []
    begin = threading.Barrier(2)

    def make(names: list[str]) -> None:
        sql, arguments, *_ = creating([creation(name) for name in names])
        prepared("SELECT 1", ())
        begin.wait(DEADLINE)
        made.extend(name for name, _ in prepared(sql, arguments))
        connections.close_all()

    for turn in range(20):
        names = [f"{turn}-{n}" for n in range(50)]
        threads = [threading.Thread(target=make, args=[order]) for order in (names, names[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        assert sorted(made) == sorted(names)
        made.clear()


def test_a_first_append_leaves_what_a_topic_and_an_append_to_it_leave() -> None:
    put_topic("made", Config(), NOW)
    appends = [first(name, 3, tag="t") for name in ("made", "at once", "and another")]
    append("made", Append([]), appends[0].rows, NOW)
    one, another = together(*appends[1:])
    assert isinstance(one, Appended)
    assert (one[:5], another) == ((1, 3, 3, True, False), one)
    for name in ("at once", "and another"):
        topic = Topic.objects.get(name=name)
        assert columns(topic) == columns(Topic.objects.get(name="made"))
        assert columns(head(name)) == columns(head("made"))
        assert read(name) == read("made")
        assert cached(name) == look_up(name)
    assert not AuditEntry.objects.exclude(name="made").exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM topics_topic WHERE name IN ('at once', 'and another')")
        assert cursor.fetchone() == (1,)


def columns(row: Topic | TopicHead) -> dict[str, Any]:
    """What a row says beyond whose it is and when it was written."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return {name: value for name, value in values.items() if name not in ("id", "topic_id", "name", "last_ts")}


def test_a_first_append_to_a_topic_that_is_there_writes_nothing() -> None:
    put_topic("taken", Config(), NOW)
    taken, one, other = together(first("taken"), first("new"), first("new", 2))
    assert taken is None
    assert sorted(each is None for each in (one, other)) == [False, True]
    assert (head("taken").head_seq, read("taken")) == (0, ([], 0))
    assert read("new")[0] in ([1], [1, 2])


def test_of_appends_that_race_to_make_a_topic_one_makes_it_and_all_are_there() -> None:
    async def main() -> list[Appended]:
        try:
            each = [here().drive(appending("new", Append([]), first("new").rows, NOW)) for _ in range(20)]
            return await asyncio.wait_for(asyncio.gather(*each), 60)
        finally:
            await loop.close()

    done = asyncio.run(main())
    assert sorted(each.first_seq for each in done) == list(range(1, 21))
    assert [each.first_seq for each in done if each.created] == [1]
    assert read("new") == (list(range(1, 21)), 20)


def test_a_first_append_that_cannot_be_written_makes_no_topic_and_is_no_others_trouble() -> None:
    refused, unsendable, good = first("a"), first("b"), first("c")
    refused.rows.nodes[:], unsendable.rows.sizes[:] = ["\0"], [object()]
    found = together(refused, unsendable, good)
    assert [type(each) for each in found] == [InvalidRequest, TypeError, Appended]
    assert set(Topic.objects.values_list("name", flat=True)) == {"first", "c"}
    assert TopicHead.objects.count() == 2
