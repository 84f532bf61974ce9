"""Routers in the admin: the list with its lag, the form, pause and resume, delete."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from routers.models import Router
from routers.routers import RouterConfig
from tests.admin.pages import errors, put, rows, text
from tests.scripts import put_router, set_paused
from topics.models import Cursor, Topic

LIST = reverse("admin:routers_router_changelist")
ADD = reverse("admin:routers_router_add")
NEW = {
    "name": "a->b",
    "source_name": "a",
    "dest_name": "b",
    "create_dest": "on",
    "start": "head",
    "start_seq": "",
    "filter_op": "",
    "filter_tag": "",
    "preserve_node": "on",
    "preserve_tag": "on",
    "guarantee": "at_least_once",
}
ENDS = ("name", "source_name", "dest_name", "create_dest", "start", "start_seq")
OPTIONS = {name: value for name, value in NEW.items() if name not in ENDS}


def change(router: Router) -> str:
    return reverse("admin:routers_router_change", args=[router.pk])


@pytest.fixture
def router(db: None) -> Router:
    put("a", "1", "2", "3")
    return put_router("a->b", RouterConfig(source="a", dest="b", start="earliest", paused=True), now_ms()).router


def test_the_list_shows_lag_in_one_query(browser: Client, router: Router, queries: Any) -> None:
    put_router("c->d", RouterConfig(source="c", dest="d", guarantee="exactly_once"), now_ms())
    with queries(1):
        page = browser.get(LIST).content.decode()
    behind, level = rows(page)
    assert behind[:6] == ["a-&gt;b", "a", "b", "paused", "3", behind[5]]
    assert behind[5].endswith(" s")
    assert behind[6:8] == ["0", "at_least_once"]
    assert level[:8] == ["c-&gt;d", "c", "d", "running", "0", "nothing", "0", "exactly_once"]
    assert [row[0] for row in rows(browser.get(LIST, {"q": "d"}).content.decode())] == ["c-&gt;d"]


def test_a_router_that_stands_still_is_called_stalled(browser: Client, router: Router) -> None:
    set_paused("a->b", False)
    Cursor.objects.filter(kind="router").update(updated_ts=1)
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_record SET ts = 1 WHERE topic_id = %s", [router.source_id])
    assert rows(browser.get(LIST).content.decode())[0][3] == "stalled"


@pytest.mark.parametrize(("start", "seq"), [("head", 3), ("earliest", 0), ("seq", 2)])
def test_it_creates_a_router(browser: Client, start: str, seq: int) -> None:
    put("a", "1", "2", "3")
    after = "2" if start == "seq" else ""
    form = {**NEW, "start": start, "start_seq": after, "filter_op": "Glob", "filter_tag": "public:*", "paused": "on"}
    response = browser.post(ADD, form)
    assert response.status_code == 302, errors(response.content.decode())
    made = Router.objects.select_related("cursor", "source", "dest").get(name="a->b")
    assert (made.source.name, made.dest.name, made.cursor.seq) == ("a", "b", seq)
    assert (made.filter_op, made.filter_tag, made.state) == ("Glob", "public:", "paused")
    assert 'value="public:*"' in browser.get(change(made)).content.decode()


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"name": "no good"}, "invalid router"),
        ({"source_name": "no good"}, "invalid "),
        ({"dest_name": "a"}, "choose two topics"),
        ({"dest_name": "x", "create_dest": ""}, "does not exist"),
        ({"source_name": "b", "dest_name": "a"}, "cycle"),
        ({"source_name": "z", "dest_name": "b"}, "already has the source"),
        ({"filter_op": "Glob", "filter_tag": "x"}, "expected a prefix without *, and one * at its end"),
        ({"filter_tag": "public:*"}, "Choose how the tag below must match"),
        ({"start_seq": "2"}, "Choose to start after the seq below"),
        ({"start": "seq", "start_seq": "-1"}, "expected"),
        ({"start": "seq", "start_seq": ""}, "expected"),
        ({"guarantee": "maybe"}, "not one of the available choices"),
        ({"name": "a->b"}, "already exists"),
    ],
)
def test_it_refuses_what_the_api_refuses(browser: Client, router: Router, form: dict[str, str], told: str) -> None:
    page = browser.post(ADD, {**NEW, "name": "new", **form}).content.decode()
    assert told in errors(page), errors(page)
    assert list(Router.objects.values_list("name", flat=True)) == ["a->b"]
    assert set(Topic.objects.values_list("name", flat=True)) == {"a", "b"}


def test_it_changes_options_and_nothing_else(browser: Client, router: Router) -> None:
    sent = {**NEW, "name": "x", "source_name": "x", "dest_name": "x", "allow_cycle": "on", "guarantee": "exactly_once"}
    response = browser.post(change(router), sent)
    assert response.status_code == 302, errors(response.content.decode())
    changed = Router.objects.select_related("source", "dest").get()
    assert (changed.name, changed.source.name, changed.dest.name) == ("a->b", "a", "b")
    assert (changed.allow_cycle, changed.guarantee, changed.state) == (True, "exactly_once", "running")


def test_a_filter_is_taken_away(browser: Client, router: Router) -> None:
    filtered = {**OPTIONS, "filter_op": "Eq", "filter_tag": "public"}
    assert browser.post(change(router), filtered).status_code == 302
    assert "Choose how" in errors(browser.post(change(router), {**OPTIONS, "filter_tag": "other"}).content.decode())
    assert Router.objects.get().filter_tag == "public"
    assert browser.post(change(router), {**filtered, "filter_op": ""}).status_code == 302  # the tag that the page shows
    assert Router.objects.get().filter_op is None


def test_a_change_that_closes_a_cycle_is_refused(browser: Client, router: Router) -> None:
    back = put_router("b->a", RouterConfig(source="b", dest="a", allow_cycle=True), now_ms()).router
    page = browser.post(change(back), OPTIONS).content.decode()
    assert "cycle" in errors(page)
    assert Router.objects.get(name="b->a").allow_cycle


def test_pause_and_resume(browser: Client, router: Router) -> None:
    before = "paused"
    for action, state in (("resume", "running"), ("pause", "paused"), ("pause", "paused")):
        chosen = {"action": action, "_selected_action": [router.pk]}
        asked = browser.post(LIST, chosen)
        assert "a-&gt;b: 3 records of a are not yet in b" in text(asked.content.decode())
        assert Router.objects.get().state == before
        assert browser.post(LIST, {**chosen, "confirmed": "yes"}).status_code == 302
        assert Router.objects.get().state == state
        before = state
    history = browser.get(reverse("admin:routers_router_history", args=[router.pk])).content.decode()
    assert "Resumed." in history


def test_it_deletes_routers_with_their_cursors(browser: Client, router: Router) -> None:
    url = reverse("admin:routers_router_delete", args=[router.pk])
    assert "3 records of a are not yet in b" in text(browser.get(url).content.decode())
    assert browser.post(url, {"post": "yes"}).status_code == 302
    put_router("r2", RouterConfig(source="a", dest="b"), now_ms())
    chosen = {"action": "delete_selected", "_selected_action": [Router.objects.get().pk], "post": "yes"}
    assert browser.post(LIST, chosen).status_code == 302
    assert not Router.objects.exists()
    assert not Cursor.objects.exists()


def test_a_viewer_changes_nothing(viewer: Client, router: Router) -> None:
    assert viewer.get(change(router)).status_code == 200
    assert viewer.post(ADD, NEW).status_code == 403
    assert viewer.post(change(router), OPTIONS).status_code == 403
    viewer.post(LIST, {"action": "resume", "_selected_action": [router.pk], "confirmed": "yes"})
    assert Router.objects.get().state == "paused"
