"""A queue's pages of schedules: a list, a form that creates or replaces, and a button that deletes."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from django.test import Client

from queues.schedules import StoredSchedule, Times, get_schedule, page_of_schedules, put_schedule
from store.script import run
from tests.admin.pages import errors, put, text
from tests.scripts import put_topic
from topics.append.records import NewRecord, columns
from topics.config import Config
from topics.models import AuditEntry

EVIL = "<script>alert(1)</script>"
PAGE = "/admin/topic/mails/schedules/"
NIGHTLY = f"{PAGE}nightly/"
NOW = 1_790_000_000_000
FORM = {
    "name": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "not_before": "", "data": '{"a": 1.50}',
    "tag": "t", "node": "n", "meta": '{"k": 1}',
}  # fmt: skip


@pytest.fixture
def mails(db: None) -> None:
    put_topic("mails", Config(type="queue"), NOW)


def schedule(name: str, data: str = "1") -> None:
    record = NewRecord(msgspec.Raw(data.encode()))
    run(put_schedule("mails", name, Times(NOW, None, "UTC"), columns([record], None), NOW))


def stored() -> list[StoredSchedule]:
    return run(page_of_schedules("mails", "", 100))


def test_a_form_creates_replaces_and_deletes(browser: Client, mails: None) -> None:
    page = text(browser.post(PAGE, FORM, follow=True).content.decode())
    assert "Schedule nightly is created: the next job comes at 2" in page
    for shown in ("nightly", "0 3 * * *", "Europe/Berlin", "{&quot;a&quot;: 1.50}"):
        assert shown in page.partition("Name Next job")[2]
    found = run(get_schedule("mails", "nightly"))
    assert found.record == {
        "tag": "t", "node": "n", "meta": msgspec.Raw(b'{"k": 1}'), "data": msgspec.Raw(b'{"a": 1.50}'),
    }  # fmt: skip

    form = fields(browser.get(NIGHTLY).content.decode())
    assert form == {name: value for name, value in FORM.items() if name != "name"}
    once = {**form, "cron": "", "timezone": "UTC", "not_before": "2099-01-31T08:00:00", "name": "other"}
    page = text(browser.post(NIGHTLY, once, follow=True).content.decode())
    assert "Schedule nightly is replaced: the next job comes at 2099-01-31 08:00:00 UTC." in page
    assert [(each.name, each.cron, each.due_ts) for each in stored()] == [("nightly", None, 4_073_529_600_000)]
    assert fields(browser.get(NIGHTLY).content.decode())["not_before"] == "2099-01-31T08:00:00"

    to_the_ms = "2099-01-31T08:00:00.007"
    browser.post(NIGHTLY, {**once, "not_before": to_the_ms})
    assert [each.due_ts for each in stored()] == [4_073_529_600_007]
    assert fields(browser.get(NIGHTLY).content.decode())["not_before"] == to_the_ms

    later = {**FORM, "not_before": "2096-01-31T08:00:00"}
    browser.post(NIGHTLY, later)
    form = fields(browser.get(NIGHTLY).content.decode())
    assert form["not_before"] == later["not_before"]
    (before,) = stored()
    browser.post(NIGHTLY, {**form, "name": "nightly"})
    assert stored() == [before]

    page = text(browser.post(NIGHTLY, {"action": "delete"}, follow=True).content.decode())
    assert "Schedule nightly is deleted." in page
    assert "This queue has no schedule." in page
    noted = AuditEntry.objects.filter(kind="schedule").order_by("id").values_list("action", "name")
    assert list(noted) == [(action, "mails/nightly") for action in ("create", *["change"] * 4, "delete")]
    assert browser.get(NIGHTLY).status_code == 404


def test_the_lines_of_a_text_area_stay_as_they_are(browser: Client, mails: None) -> None:
    browser.post(PAGE, {**FORM, "data": '{\r\n  "a": "\\r\\n"\r\n}'})
    assert (run(get_schedule("mails", "nightly")).record or {})["data"] == msgspec.Raw(b'{\n  "a": "\\r\\n"\n}')


def fields(page: str) -> dict[str, str]:
    """Returns what the form of the page would send."""
    form = page.partition('id="schedule"')[2]
    inputs = re.findall(r'<(?:input|textarea)[^>]*name="(\w+)"(?:[^>]*value="([^"]*)")?[^>]*>([^<]*)', form)
    return {name: (value or body).strip().replace("&quot;", '"') for name, value, body in inputs if name in FORM}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": "a b"}, "invalid schedule"),
        ({"name": ""}, "required"),
        ({"cron": "0 3 * *"}, "expected five fields"),
        ({"cron": ""}, "timezone is for cron"),
        ({"cron": "", "timezone": "UTC"}, "not_before and cron are missing"),
        ({"timezone": EVIL}, "unknown timezone"),
        ({"not_before": "1969-12-31T00:00"}, "from the year 1970"),
        ({"not_before": "9999-12-31T23:00"}, "to the year 9999"),
        ({"not_before": "tomorrow"}, "valid date"),
        ({"data": '1,"tag":"x"'}, "invalid JSON in data"),
        ({"meta": "1"}, "meta"),
        ({"meta": '{},"tag":"x"'}, "invalid JSON in meta"),
        ({"tag": "x" * 300}, "at most 256"),
    ],
)
def test_a_wrong_form_says_what_is_wrong(browser: Client, mails: None, changed: dict[str, str], told: str) -> None:
    page = browser.post(PAGE, {**FORM, **changed}).content.decode()
    assert told in errors(page)
    assert EVIL not in page
    assert stored() == []


def test_the_list_has_pages_and_beginnings_of_data(browser: Client, mails: None, queries: Any) -> None:
    for n in range(52):
        schedule(f"s{n:02}", f'"{EVIL}{"x" * 300}"')
    with queries(4):
        page = browser.get(PAGE).content.decode()
    assert EVIL not in page
    assert f"{'x' * 170}…" in page
    assert ("s49" in page, "s50" in page) == (True, False)
    (following,) = re.findall(r'href="(\?after=s\d+)"', page)
    page = browser.get(PAGE + following).content.decode()
    assert ("s49<" in page, "s50" in page, "s51" in page, "Next schedules" in page) == (False, True, True, False)


def test_a_viewer_looks_and_changes_nothing(viewer: Client, mails: None) -> None:
    schedule("nightly", '{"secret": 7}')
    assert "Save" not in viewer.get(PAGE).content.decode()
    page = text(viewer.get(NIGHTLY).content.decode())
    assert "{&quot;secret&quot;: 7}" in page
    assert "Yes, delete" not in page
    assert viewer.post(PAGE, FORM).status_code == 403
    for form in (FORM, {"action": "delete"}):
        assert viewer.post(NIGHTLY, form).status_code == 403
    assert [each.cron for each in stored()] == [None]


def test_a_form_of_another_site_changes_nothing(browser: Client, mails: None) -> None:
    schedule("nightly")
    browser.handler.enforce_csrf_checks = True
    assert browser.post(PAGE, FORM).status_code == 403
    assert browser.post(NIGHTLY, {"action": "delete"}).status_code == 403
    assert [each.cron for each in stored()] == [None]


def test_what_is_not_there_is_404(browser: Client, mails: None) -> None:
    put("a-log", "1")
    for page in (
        "a-log/schedules/",
        "a-log/schedules/x/",
        "none/schedules/",
        "mails/schedules/none/",
        "mails/schedules/a b/",
    ):
        assert browser.get(f"/admin/topic/{page}").status_code == 404, page
    assert "Schedules" not in browser.get("/admin/topic/a-log/").content.decode()
    page = browser.post(f"{PAGE}gone/", {"action": "delete"}, follow=True).content.decode()
    assert "Schedule gone was deleted before." in text(page)
    assert "nvalid schedule" in browser.post(f"{PAGE}a b/", {"action": "delete"}, follow=True).content.decode()
