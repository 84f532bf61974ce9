"""Trim in the admin: a form, what it would delete, and the delete itself."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from routers.routers import RouterConfig
from tests.admin.pages import errors, put, text
from tests.scripts import catch_up, diff, put_router
from topics.models import Topic
from topics.read.diff import Diff


def trim(topic: Topic) -> str:
    return reverse("admin:topics_topic_trim", args=[topic.pk])


def send(browser: Client, topic: Topic, **data: Any) -> str:
    response = browser.post(trim(topic), {"before_seq": "", "op": "", "tag": "", **data})
    assert response.status_code == 200
    return response.content.decode()


def confirm(browser: Client, topic: Topic, **data: Any) -> None:
    response = browser.post(trim(topic), {"before_seq": "", "op": "", "tag": "", **data, "confirmed": "yes"})
    assert response.status_code == 302


def seqs(name: str) -> list[int]:
    window = diff(name, Diff(), now_ms())
    return [record["$seq"] for record in json.loads(f"[{window.records or ''}]")]


@pytest.fixture
def topic(db: None) -> Topic:
    put("a", "1", "22", tag="x:1")
    put("a", "333", tag="x:2")
    return put("a", "4444", "55555")


def test_before_a_seq(browser: Client, topic: Topic) -> None:
    assert "5 records, 15 B of payload" in text(browser.get(trim(topic)).content.decode())
    page = text(send(browser, topic, before_seq=3))
    assert "this deletes 2 records, 3 B of payload below seq 3" in page
    assert seqs("a") == [1, 2, 3, 4, 5]
    confirm(browser, topic, before_seq=3)
    assert seqs("a") == [3, 4, 5]
    history = browser.get(reverse("admin:topics_topic_history", args=[topic.pk])).content.decode()
    assert "Trimmed: 2 records deleted" in history


def test_a_tag_with_a_nul_is_an_error_of_the_form(browser: Client, topic: Topic) -> None:
    page = send(browser, topic, op="Eq", tag="x\0")
    assert errors(page) == "Null characters are not allowed."
    assert seqs("a") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("form", "lost", "left"),
    [
        ({"op": "Eq", "tag": "x:1"}, "2 records, 3 B", [3, 4, 5]),
        ({"op": "Glob", "tag": "x:*"}, "3 records, 6 B", [4, 5]),
        ({"op": "Glob", "tag": "*"}, "3 records, 6 B", [4, 5]),
        ({"op": "Glob", "tag": "x:*", "before_seq": "3"}, "2 records, 3 B", [3, 4, 5]),
        ({"op": "Eq", "tag": "nobody"}, "0 records, 0 B", [1, 2, 3, 4, 5]),
        ({"before_seq": "0"}, "0 records, 0 B", [1, 2, 3, 4, 5]),
        ({"before_seq": str(2**63 - 1)}, "5 records, 15 B", []),
        ({"op": "Eq", "tag": "x:1", "before_seq": str(2**63 - 1)}, "2 records, 3 B", [3, 4, 5]),
    ],
)
def test_what_is_told_is_what_goes(
    browser: Client, topic: Topic, form: dict[str, str], lost: str, left: list[int]
) -> None:
    assert f"this deletes {lost}" in text(send(browser, topic, **form))
    confirm(browser, topic, **form)
    assert seqs("a") == left


def test_forwarded_records_count_too(browser: Client, topic: Topic) -> None:
    put_router("r", RouterConfig(source="a", dest="b", start="earliest"), now_ms())
    dest = Topic.objects.get(name="b")
    catch_up(dest.pk, now_ms())
    put("b", "6", tag="x:9")
    assert seqs("b") == [1, 2, 3, 4, 5, 6]
    assert "4 records, 7 B" in text(send(browser, dest, op="Glob", tag="x:*"))
    assert "3 records, 6 B" in text(send(browser, dest, op="Glob", tag="x:*", before_seq=4))
    assert "3 records, 6 B" in text(send(browser, dest, before_seq=4))
    confirm(browser, dest, op="Glob", tag="x:*", before_seq=4)
    assert seqs("b") == [4, 5, 6]
    assert seqs("a") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({}, "enter a seq, a tag, or both"),
        ({"before_seq": "-1"}, "expected a whole number of at least 0"),
        ({"before_seq": str(2**63)}, "expected a whole number of at most "),
        ({"before_seq": "x"}, "Enter a whole number"),
        ({"tag": "x"}, "choose how the tag must match"),
        ({"op": "Glob", "tag": "x"}, "expected a prefix without *, and one * at its end"),
        ({"op": "Glob", "tag": "*x*"}, "expected a prefix without *, and one * at its end"),
        ({"op": "Regex", "tag": "x"}, "not one of the available choices"),
    ],
)
def test_it_refuses(browser: Client, topic: Topic, form: dict[str, str], told: str) -> None:
    for also in ({}, {"confirmed": "yes"}):
        page = send(browser, topic, **form, **also)
        assert told in errors(page), errors(page)
    assert seqs("a") == [1, 2, 3, 4, 5]
