"""Cursors in the admin: lag in the list, named ones set as the API sets them, others only shown."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from routers.models import Router
from routers.routers import RouterConfig
from tests.admin.pages import errors, put, rows
from tests.scripts import delete_cursor, move, put_router
from topics.models import Cursor

LIST = reverse("admin:topics_cursor_changelist")
ADD = reverse("admin:topics_cursor_add")


def change(cursor: Cursor) -> str:
    return reverse("admin:topics_cursor_change", args=[cursor.pk])


def delete(cursor: Cursor) -> str:
    return reverse("admin:topics_cursor_delete", args=[cursor.pk])


@pytest.fixture
def named(db: None) -> Cursor:
    put("a", *map(str, range(10)))
    move("a", "billing", 4, None, now_ms())
    return Cursor.objects.get(name="billing")


@pytest.fixture
def owned(named: Cursor) -> Cursor:
    put_router("r", RouterConfig(source="a", dest="b", start="earliest"), now_ms())
    return Cursor.objects.get(kind="router")


def test_the_list_shows_lag_in_one_query(browser: Client, owned: Cursor, queries: Any) -> None:
    move("a", "done", 10, None, now_ms())
    with queries(1):
        page = browser.get(LIST).content.decode()
    billing, done, router = rows(page)
    assert billing[:6] == ["billing", "named", "a", "4", "10", "6"]
    assert billing[6].endswith(" s")
    assert done[:7] == ["done", "named", "a", "10", "10", "0", "none"]
    assert router[:6] == ["r", "router", "a", "0", "10", "10"]
    assert [row[0] for row in rows(browser.get(LIST, {"q": "bil"}).content.decode())] == ["billing"]
    assert [row[0] for row in rows(browser.get(LIST, {"kind": "router"}).content.decode())] == ["r"]


@pytest.mark.parametrize(
    ("form", "seq"),
    [({"at": "seq", "seq": "7"}, 7), ({"at": "head"}, 10), ({"at": "earliest"}, 0)],
)
def test_it_makes_and_moves_a_cursor(browser: Client, named: Cursor, form: dict[str, str], seq: int) -> None:
    assert browser.post(ADD, {"topic_name": "a", "name": "new", **form}).status_code == 302
    assert Cursor.objects.get(name="new").seq == seq
    page = browser.get(change(named)).content.decode()
    assert 'name="expected_seq" value="4"' in page
    assert browser.post(change(named), {"expected_seq": "4", **form}).status_code == 302
    assert Cursor.objects.get(name="billing").seq == seq


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"topic_name": "nobody"}, "does not exist"),
        ({"name": "no good"}, "invalid "),
        ({"name": "billing"}, "has a cursor"),
        ({"name": "r"}, "belongs to a router and is read-only"),
        ({"seq": "11"}, "above the head"),
        ({"seq": "-1"}, "expected a whole number of at least 0"),
        ({"seq": ""}, "the position of the cursor is missing"),
        ({"at": "moon"}, "not one of the available choices"),
        ({"at": "head"}, "Choose to set the cursor to the seq below"),
    ],
)
def test_it_refuses_what_the_api_refuses(browser: Client, owned: Cursor, form: dict[str, str], told: str) -> None:
    page = browser.post(ADD, {"topic_name": "a", "name": "new", "at": "seq", "seq": "1", **form}).content.decode()
    assert told in errors(page), errors(page)
    assert sorted(Cursor.objects.values_list("name", "seq")) == [("billing", 4), ("r", 0)]


def test_a_cursor_that_moved_meanwhile_is_left_where_it_is(browser: Client, named: Cursor) -> None:
    move("a", "billing", 6, None, now_ms())
    page = browser.post(change(named), {"expected_seq": "4", "at": "seq", "seq": "5"}).content.decode()
    assert "the cursor is at 6, not at 4" in errors(page)
    assert Cursor.objects.get(name="billing").seq == 6


def test_a_cursor_that_was_deleted_meanwhile_is_not_made_again(browser: Client, named: Cursor) -> None:
    delete_cursor("a", "billing")
    assert browser.post(change(named), {"expected_seq": "4", "at": "head"}).status_code == 302
    assert not Cursor.objects.exists()


def test_a_routers_cursor_is_only_shown(browser: Client, owned: Cursor) -> None:
    assert "View cursor" in browser.get(change(owned)).content.decode()
    assert browser.post(change(owned), {"at": "head"}).status_code == 403
    assert browser.post(delete(owned), {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [owned.pk], "post": "yes"}
    browser.post(LIST, chosen)
    assert Cursor.objects.get(pk=owned.pk).seq == 0
    assert Router.objects.count() == 1


def test_named_cursors_are_deleted(browser: Client, named: Cursor) -> None:
    assert "Cursor billing of a at 4" in browser.get(delete(named)).content.decode()
    assert browser.post(delete(named), {"post": "yes"}).status_code == 302
    move("a", "one", 1, None, now_ms())
    move("a", "two", 1, None, now_ms())
    chosen = {"action": "delete_selected", "_selected_action": list(Cursor.objects.values_list("pk", flat=True))}
    assert browser.post(LIST, {**chosen, "post": "yes"}).status_code == 302
    assert not Cursor.objects.exists()


def test_a_viewer_moves_nothing(viewer: Client, named: Cursor) -> None:
    assert viewer.get(change(named)).status_code == 200
    for url in (ADD, change(named), delete(named)):
        assert viewer.post(url, {"topic_name": "a", "name": "x", "at": "head", "post": "yes"}).status_code == 403
    assert list(Cursor.objects.values_list("name", "seq")) == [("billing", 4)]
