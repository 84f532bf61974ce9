"""The audit log in the admin has every change of the admin, and is read-only."""

import ast
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from routers.routers import RouterConfig
from tests.admin.pages import put, rows, text
from tests.instances import ROOT
from tests.scripts import put_router
from topics.admin.audit import ACTIONS, KINDS
from topics.config import COLUMNS
from topics.models import ApiKey, AuditEntry, Topic

LIST = reverse("admin:topics_auditentry_changelist")
HOUR_MS = 3_600_000


def entry(**fields: Any) -> AuditEntry:
    given = {"ts": now_ms(), "actor": "key:1", "action": "change", "kind": "topic", "name": "orders", **fields}
    return AuditEntry.objects.create(**given)


def found(browser: Client, **query: str) -> list[list[str]]:
    """Returns action, kind and name of each row."""
    return [row[3:] for row in rows(browser.get(LIST, query).content.decode())]


def test_the_list_is_one_query_newest_first(browser: Client, queries: Any) -> None:
    entry(actor="env:0a1b", origin="10.0.0.1", ts=1_000)
    entry(actor="user:7", actor_name="boss", action="delete", kind="router", name="r", ts=2_000)
    with queries(1):
        page = browser.get(LIST).content.decode()
    assert rows(page) == [
        ["1970-01-01 00:00:02", "boss (user:7)", "-", "delete", "router", "r"],
        ["1970-01-01 00:00:01", "env:0a1b", "10.0.0.1", "change", "topic", "orders"],
    ]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"q": "ord"}, {"orders"}),
        ({"q": "BOSS"}, {"r"}),
        ({"q": "key:1"}, {"orders"}),
        ({"q": "10.0."}, {"r"}),
        ({"kind": "router"}, {"r"}),
        ({"action": "delete"}, {"r"}),
        ({"since": "hour"}, {"orders"}),
        ({"since": "day"}, {"orders", "r"}),
        ({"kind": "none", "since": "none"}, {"orders", "r"}),
    ],
)
def test_search_and_filters(browser: Client, query: dict[str, str], names: set[str]) -> None:
    entry()
    more = {"actor": "user:7", "actor_name": "Boss", "origin": "10.0.0.1", "ts": now_ms() - 2 * HOUR_MS}
    entry(**more, action="delete", kind="router", name="r")
    assert {row[2] for row in found(browser, **query)} == names


def test_the_filters_have_every_word_that_the_log_can_have() -> None:
    """Reads the code for each entry that the product writes."""
    noted = [each for app in apps.get_app_configs() if (ROOT / app.label).is_dir() for each in words(ROOT / app.label)]
    kinds = {kind for _, kind in noted}
    assert {action for action, _ in noted} == set(ACTIONS)
    assert kinds == set(KINDS)


def words(folder: Any) -> Iterator[tuple[str, str]]:
    """Yields action and kind of each call of `audit.note` and its like in a folder."""
    calls = [
        each
        for file in folder.rglob("*.py")
        for each in ast.walk(ast.parse(file.read_text()))
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and getattr(each.func.value, "id", "") == "audit"
    ]
    for call in calls:
        match call.func.attr, call.args:  # type: ignore[attr-defined]
            case "note" | "note_all" | "entry", [action, kind, *_]:
                yield from ((each, ast.literal_eval(kind)) for each in either(action))
            case "note_difference", [kind, *_]:
                yield "change", ast.literal_eval(kind)


def either(word: ast.expr) -> list[str]:
    """Returns the words of `"one" if … else "other"`, or the one word."""
    return [*either(word.body), *either(word.orelse)] if isinstance(word, ast.IfExp) else [ast.literal_eval(word)]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("ttl_ms", {"orders", "r"}),
        ("60000", {"orders"}),
        ("VIP:*", {"r"}),
        ('"tag": "vip:', {"r"}),
        ("boss ttl_ms", {"r"}),
        ("boss 60000", set()),
    ],
)
def test_what_was_there_before_and_after_is_searched(browser: Client, words: str, names: set[str]) -> None:
    entry(before={"ttl_ms": 60000}, after={"ttl_ms": 0})
    entry(actor="user:7", actor_name="Boss", kind="router", name="r", before=None, after={"tag": "vip:*", "ttl_ms": 1})
    entry(name="neither", before={"cap_records": 5}, after=None)
    assert {row[2] for row in found(browser, q=words)} == names


def test_an_entry_shows_before_and_after_as_text(browser: Client) -> None:
    made = entry(before={"ttl_ms": 5}, after={"tag": "<script>"})
    page = browser.get(reverse("admin:topics_auditentry_change", args=[made.pk])).content.decode()
    assert '"ttl_ms": 5' in text(page).replace("&quot;", '"')
    assert "<script>&quot;" not in page
    assert "&lt;script&gt;" in page


def test_no_user_adds_changes_or_deletes(browser: Client) -> None:
    made = entry()
    assert browser.get(reverse("admin:topics_auditentry_add")).status_code == 403
    assert browser.post(reverse("admin:topics_auditentry_change", args=[made.pk]), {"name": "x"}).status_code == 403
    assert browser.post(reverse("admin:topics_auditentry_delete", args=[made.pk]), {"post": "yes"}).status_code == 403
    browser.post(LIST, {"action": "delete_selected", "_selected_action": [made.pk], "post": "yes"})
    assert AuditEntry.objects.get().name == "orders"


def test_what_is_done_in_the_admin_is_its_users_doing(browser: Client) -> None:
    put("a", "1")
    router = put_router("r", RouterConfig(source="a", dest="b"), now_ms()).router
    AuditEntry.objects.all().delete()
    config = {name: getattr(Topic.objects.get(name="a"), name) for name in COLUMNS if name != "type"}
    fields = {name: "" if value is None else value for name, value in config.items() if value is not False}
    topic = Topic.objects.get(name="a")
    response = browser.post(reverse("admin:topics_topic_change", args=[topic.pk]), {**fields, "ttl_ms": "9000000"})
    assert response.status_code == 302
    browser.post(reverse("admin:topics_topic_trim", args=[topic.pk]), {"before_seq": "2", "confirmed": "yes"})
    chosen = {"action": "pause", "_selected_action": [router.pk], "confirmed": "yes"}
    browser.post(reverse("admin:routers_router_changelist"), chosen)
    browser.post(reverse("admin:topics_topic_delete", args=[topic.pk]), {"post": "yes"})
    assert found(browser)[::-1] == [
        ["change", "topic", "a"],
        ["delete", "records", "a"],
        ["change", "router", "r"],
        ["delete", "router", "r"],
        ["delete", "topic", "a"],
    ]
    assert {(each.actor_name, each.origin) for each in AuditEntry.objects.all()} == {("boss", "127.0.0.1")}


def test_keys_are_in_it_without_their_secrets(browser: Client) -> None:
    browser.post(
        reverse("admin:topics_apikey_add"),
        {"name": "k", "read": "on", "prefixes": "a", "expires_0": "", "expires_1": "", "confirmed": "on"},
    )
    key = ApiKey.objects.get()
    url = reverse("admin:topics_apikey_change", args=[key.pk])
    browser.post(url, {"name": "k", "read": "on", "write": "on", "prefixes": "a"})
    rotation = reverse("admin:topics_apikey_rotate", args=[key.pk])
    browser.post(rotation, {"overlap_ms": HOUR_MS, "secret": browser.get(rotation).context["form"]["secret"].value()})
    hashes = {bytes(ApiKey.objects.get().secret_sha256).hex(), bytes(key.secret_sha256).hex()}
    browser.post(
        reverse("admin:topics_apikey_changelist"),
        {"action": "revoke", "_selected_action": [key.pk], "confirmed": "yes"},
    )
    described = {"id": key.pk, "name": "k", "scopes": ["read"], "prefixes": ["a"], "expires": None}
    entries = [(each.action, each.before, each.after) for each in AuditEntry.objects.order_by("id")]
    assert entries == [
        ("create", None, described),
        ("change", {"scopes": ["read"]}, {"scopes": ["read", "write"]}),
        ("rotate", None, {"id": key.pk, "old_secret_valid_for": "1 h 0 min"}),
        ("revoke", {**described, "scopes": ["read", "write"]}, None),
    ]
    assert not [secret for secret in (*hashes, "tk_") if secret in str(entries)]
