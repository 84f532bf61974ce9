"""A form of the console that is sent as it came changes nothing, whatever its object has."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from pipeline.models import Schedule
from push.models import BusClient, BusTopic
from queues.schedules import Times, get_schedule, put_schedule
from routers.models import Router
from routers.routers import RouterConfig
from store.script import run
from tests.admin.pages import errors, put
from tests.scripts import move, put_router, put_topic
from topics.append.records import NewRecord, columns
from topics.config import Config
from topics.models import ApiKey, Cursor, Topic

FAR_TS = 4_000_000_000_007  # with milliseconds
DATA = '{\n  "a": [1.50, "<b>\\r\\n"]\n}'


class Sent(HTMLParser):
    """What a browser sends of the forms of a page that have an id, if a person changes nothing. `forms`: by id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self.form: dict[str, str] = {}
        self.selected = self.written = ""  # the field that is being read
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name, kind = given.get("name", ""), given.get("type", "text")
        if tag == "form":
            self.form = self.forms.setdefault(given.get("id", ""), {})
        elif "disabled" in given:
            return
        elif tag == "select":
            self.selected = name
        elif tag == "option" and ("selected" in given or self.selected not in self.form):
            self.form[self.selected] = given["value"]
        elif tag == "textarea":
            self.written, self.form[name] = name, ""
        elif tag == "input" and kind in ("checkbox", "radio") and "checked" in given:
            self.form[name] = given.get("value", "on")
        elif tag == "input" and kind not in ("checkbox", "radio", "submit", "file"):
            self.form[name] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            # A browser leaves out the first line end, and sends each other one as CR LF.
            written = self.form[self.written].removeprefix("\n")
            self.form[self.written], self.written = written.replace("\r\n", "\n").replace("\n", "\r\n"), ""

    def handle_data(self, data: str) -> None:
        if self.written:
            self.form[self.written] += data


def send_unchanged(browser: Client, url: str, form: str) -> None:
    answer = browser.post(url, Sent(browser.get(url).content.decode()).forms[form])
    assert answer.status_code == 302, errors(answer.content.decode())


def a_log() -> int:
    config = Config(
        ttl_ms=3_600_000, cap_records=10, cap_bytes=1_000, discard="reject", durability="fsync", priority=-7,
        auto_priority=False, auto_create=False, idempotency_window_ms=5, dedupe_node=False, sealed=True,
    )  # fmt: skip
    put_topic("a", config, now_ms())
    return Topic.objects.get(name="a").pk


def a_queue() -> int:
    """A queue has fields that the form does not show."""
    config = Config(
        type="queue", lease_ms=100, claim_jitter_ms=2, max_deliveries=3, dead_letter="dead", leases_durable=True,
        unique_tags=True,
    )  # fmt: skip
    put_topic("jobs", config, now_ms())
    return Topic.objects.get(name="jobs").pk


def a_router() -> int:
    config = RouterConfig(
        source="a", dest="b", preserve_node=False, preserve_tag=False, filter=("tag", "Glob", " shop:*"), allow_cycle=True,
        allow_fan_in=True, guarantee="exactly_once", paused=True,
    )  # fmt: skip
    return put_router("a->b", config, now_ms()).router.id


def a_cursor() -> int:
    put("a", "1", "2", "3")
    move("a", "billing", 2, None, now_ms())
    return Cursor.objects.get(name="billing").pk


def a_key() -> int:
    scopes = {"read": False, "write": True, "commit": True, "delete_scope": True, "webhooks": True, "admin": True}
    given = {"created_ts": now_ms(), "expires_ts": FAR_TS, "prefixes": "shop:\nmails", **scopes}
    ApiKey.objects.create(name="other", secret_sha256=b"other", admin=True, write=True, created_ts=now_ms())
    return ApiKey.objects.create(name="shop", secret_sha256=b"shop", **given).pk


def a_job() -> int:
    options = {"topic": "orders", "out": "/archive"}
    return Schedule.objects.create(job="archive", options=options, every_minutes=7, enabled=False, next_ts=5).pk


def a_bus_topic() -> str:
    clients = [BusClient.objects.create(name=name, token=f"{name}--0", created_ts=1) for name in ("one", "two")]
    return BusTopic.objects.create(name="events", publisher=clients[1], created_ts=1).pk


# An object of each model that has a form in the admin, with a value in each field that is not its default.
TABLE: dict[type[Model], tuple[Callable[[], int | str], ...]] = {
    Topic: (a_log, a_queue),
    Router: (a_router,),
    Cursor: (a_cursor,),
    ApiKey: (a_key,),
    Schedule: (a_job,),
    BusTopic: (a_bus_topic,),
}
EACH = [pytest.param(model, make, id=make.__name__) for model, every in TABLE.items() for make in every]


def test_every_form_of_the_admin_is_tried(browser: Client) -> None:
    """The forms of users and groups are those of Django."""
    request = browser.get(reverse("admin:index")).wsgi_request
    forms = {
        model
        for model, pages in admin.site._registry.items()
        if pages.has_change_permission(request) and pages.get_form(request, change=True).base_fields
    }
    assert forms - {User, Group} == set(TABLE)


@pytest.mark.parametrize(("model", "make"), EACH)
def test_a_form_sent_as_it_came_changes_nothing(
    browser: Client, model: type[Model], make: Callable[[], int | str]
) -> None:
    key = make()
    before = row(model, key)
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[key])
    send_unchanged(browser, url, f"{model._meta.model_name}_form")
    assert row(model, key) == before


# A change by another person, of fields that the form shows. A cursor's form has its own check (tests/admin/test_cursors.py).
MEANWHILE: dict[type[Model], dict[str, Any]] = {
    Topic: {"ttl_ms": 1},
    Router: {"state": "running"},
    ApiKey: {"admin": False},
    Schedule: {"enabled": True},
    BusTopic: {"publisher": None},
}


@pytest.mark.parametrize(("model", "make"), [each for each in EACH if each.values[0] in MEANWHILE])
def test_a_form_of_an_old_page_undoes_no_change(
    browser: Client, model: type[Model], make: Callable[[], int | str]
) -> None:
    key = make()
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[key])
    form = Sent(browser.get(url).content.decode()).forms[f"{model._meta.model_name}_form"]
    model._default_manager.filter(pk=key).update(**MEANWHILE[model])
    before = row(model, key)
    for _ in range(2):  # the page with the refusal is as old
        page = browser.post(url, form).content.decode()
        assert "changed while the page was open" in errors(page)
        assert row(model, key) == before
        form = Sent(page).forms[f"{model._meta.model_name}_form"]


def row(model: type[Model], key: Any) -> dict[str, Any]:
    """Returns the columns of an object, without the time of its last change."""
    return {name: value for name, value in model._default_manager.values().get(pk=key).items() if name != "updated_ts"}


@pytest.mark.parametrize(
    "times",
    [
        Times(None, "0 3 * * *", "Europe/Berlin"),
        Times(FAR_TS, "0 3 * * *", "Europe/Berlin"),
        Times(FAR_TS, None, "UTC"),
    ],
)
def test_a_schedule_sent_as_it_came_stays(browser: Client, times: Times) -> None:
    put_topic("mails", Config(type="queue"), now_ms())
    record = NewRecord(msgspec.Raw(DATA.encode()), " t ", "n", msgspec.Raw(b'{"k": "\\"<"}'))
    run(put_schedule("mails", "nightly", times, columns([record], None), now_ms()))
    before = run(get_schedule("mails", "nightly"))
    send_unchanged(browser, "/admin/topic/mails/schedules/nightly/", "schedule")
    assert run(get_schedule("mails", "nightly")) == before


def test_a_schedule_of_an_old_page_undoes_no_change(browser: Client) -> None:
    def put_cron(cron: str) -> None:
        record = NewRecord(msgspec.Raw(DATA.encode()))
        run(put_schedule("mails", "nightly", Times(None, cron, "UTC"), columns([record], None), now_ms()))

    put_topic("mails", Config(type="queue"), now_ms())
    put_cron("0 3 * * *")
    url = "/admin/topic/mails/schedules/nightly/"
    form = Sent(browser.get(url).content.decode()).forms["schedule"]
    put_cron("0 4 * * *")
    assert "changed while the page was open" in errors(browser.post(url, form).content.decode())
    assert run(get_schedule("mails", "nightly")).cron == "0 4 * * *"
