"""Topics that are made at the same time share a transaction: each is there once, and told of by whoever made it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections

from store.database import prepared
from tests import steps
from tests.log.test_delete import NOW
from tests.scripts import look_up, put_topic
from topics.cache import forget_all
from topics.config import Config, Creation, as_dict, configured, creating
from topics.models import AuditEntry, Topic, TopicHead
from wire.actor import Actor, acting

pytestmark = pytest.mark.django_db(transaction=True)
Outcome = int | BaseException | None


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


def creation(name: str, *, by: str = "", **fields: Any) -> Creation:
    with acting(lambda: Actor(by, by, "")):
        return Creation(name, fields, NOW, noted=bool(by))


def together(*creations: Creation) -> list[Outcome]:
    """What comes of them, when they arrive while another is under way."""
    return steps.together(creation("first"), *creations)


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
        begin.wait(60)
        made.extend(name for name, _ in prepared(sql, arguments))
        connections.close_all()

    for turn in range(20):
        names = [f"{turn}-{n}" for n in range(50)]
        threads = [threading.Thread(target=make, args=[order]) for order in (names, names[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(made) == sorted(names)
        made.clear()
