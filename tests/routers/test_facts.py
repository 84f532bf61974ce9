"""What the log has to know of routers stands on the heads, and is true whenever a change of routers has committed."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from routers.models import Router
from routers.routers import RouterConfig
from tests.instances import ROOT
from tests.scripts import delete_router, delete_topic, put_router
from topics.models import TopicHead

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_memory")]
NOW = 1_748_470_000_000

# A head that says something else than the routers do.
FALSE = """
SELECT t.name FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id
 WHERE h.routed <> EXISTS (SELECT FROM routers_router WHERE source_id = t.id)
    OR h.derived <> EXISTS (SELECT FROM routers_router WHERE dest_id = t.id)
    OR h.keeps_evidence <> EXISTS (SELECT FROM routers_router WHERE dest_id = t.id AND cyclic)
"""


def put(name: str, **options: Any) -> None:
    source, dest = name.split(">")
    put_router(name, RouterConfig(source=source, dest=dest, **options), NOW)


def facts() -> dict[str, str]:
    """What the heads say, once that is what the routers say: r(outed), d(erived), e(vidence) by topic."""
    with connection.cursor() as cursor:
        cursor.execute(FALSE)
        assert cursor.fetchall() == []
    heads = TopicHead.objects.select_related("topic").order_by("topic__name")
    return {
        head.topic.name: "r" * head.routed + "d" * head.derived + "e" * head.keeps_evidence
        for head in heads
        if head.routed or head.derived or head.keeps_evidence
    }


def test_both_ends_of_a_router_know_of_it() -> None:
    put("a>b")
    put("b>c")
    assert facts() == {"a": "r", "b": "rd", "c": "d"}


def test_a_cycle_is_known_where_it_leads_in_also_by_routers_that_were_there() -> None:
    put("a>b")
    put("b>c")
    put("c>a", allow_cycle=True)
    assert facts() == {"a": "rde", "b": "rde", "c": "rde"}


def test_a_router_that_goes_is_forgotten_and_so_is_the_cycle_it_closed() -> None:
    put("a>b")
    put("b>c")
    put("c>a", allow_cycle=True)
    delete_router("c>a")
    assert facts() == {"a": "r", "b": "rd", "c": "d"}
    delete_router("b>c")
    assert facts() == {"a": "r", "b": "d"}


def test_a_router_that_may_lie_on_a_cycle_is_one_until_it_may_not() -> None:
    put("a>b", allow_cycle=True)
    assert facts() == {"a": "r", "b": "de"}
    put("a>b", allow_cycle=False)
    assert facts() == {"a": "r", "b": "d"}
    put("a>b", allow_cycle=True)
    assert facts() == {"a": "r", "b": "de"}


def test_one_of_two_routers_between_the_same_topics_is_enough() -> None:
    put("a>b")
    put_router("again", RouterConfig(source="a", dest="b", allow_cycle=True), NOW)
    assert facts() == {"a": "r", "b": "de"}
    delete_router("again")
    assert facts() == {"a": "r", "b": "d"}


def test_a_topic_takes_its_routers_along_and_the_other_ends_know() -> None:
    put("a>b")
    put("b>c")
    put("c>a", allow_cycle=True)
    put("c>d")
    delete_topic("b", False, NOW)
    assert facts() == {"a": "de", "c": "r", "d": "d"}
    delete_topic("c", False, NOW)
    assert facts() == {}
    assert not Router.objects.exists()


def test_no_statement_of_the_log_reads_the_routers() -> None:
    log = ROOT / "topics"
    files = [*(log / "sql").rglob("*.sql"), *(file for file in log.rglob("*.py") if file.parent.name != "migrations")]
    assert [str(file.relative_to(ROOT)) for file in files if "routers_router" in file.read_text()] == []
