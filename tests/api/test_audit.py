"""The audit log: every call that changes or deletes configuration is in it, and nothing else is."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from base.clock import now_ms
from tests.api.clients import ApiClient
from tests.scripts import delete_topic
from topics import audit
from topics.models import AuditEntry, Topic


@pytest.fixture
def noted(db: None) -> Callable[[], list[tuple[Any, ...]]]:
    """Returns the entries since the last call."""
    seen = [0]

    def news() -> list[tuple[Any, ...]]:
        entries = AuditEntry.objects.filter(id__gt=seen[0]).order_by("id")
        seen.extend(entry.id for entry in entries)
        found = [(entry.action, entry.kind, entry.name, entry.before, entry.after) for entry in entries]
        seen[:] = [max(seen)]
        return found

    news()
    return news


def test_a_topic(views: ApiClient, name: str, noted: Any) -> None:
    config = views.put(f"/v0/topics/{name}", {"ttl_ms": 5}).json["config"]
    assert noted() == [("create", "topic", name, None, config)]
    views.put(f"/v0/topics/{name}", {"ttl_ms": 5})
    assert noted() == []
    views.put(f"/v0/topics/{name}", {"ttl_ms": 6, "cap_records": 7})
    assert noted() == [("change", "topic", name, {"ttl_ms": 5, "cap_records": 0}, {"ttl_ms": 6, "cap_records": 7})]
    changed = views.get(f"/v0/topics/{name}").json["config"]
    views.delete(f"/v0/topics/{name}")
    assert noted() == [("delete", "topic", name, changed, None)]
    views.delete(f"/v0/topics/{name}")
    assert noted() == []


def test_a_router(views: ApiClient, name: str, noted: Any) -> None:
    ends = {"source": f"{name}-s", "dest": f"{name}-d"}
    router = views.put(f"/v0/routers/{name}", ends).json
    made = {field: value for field, value in router.items() if field not in ("created", "performance")}
    assert noted() == [("create", "router", name, None, made)]
    views.put(f"/v0/routers/{name}", {**ends, "paused": True, "filter": "x"})
    assert noted() == [
        ("change", "router", name, {"paused": False, "filter": None}, {"paused": True, "filter": ["tag", "Eq", "x"]})
    ]
    views.put(f"/v0/routers/{name}", {**ends, "paused": True, "filter": "x"})
    assert noted() == []
    views.delete(f"/v0/routers/{name}")
    ((*what, before, after),) = noted()
    assert (what, before["paused"], after) == (["delete", "router", name], True, None)


def test_routers_that_go_with_their_topic(views: ApiClient, name: str, noted: Any) -> None:
    for end in "ab":
        views.put(f"/v0/routers/{name}-{end}", {"source": name, "dest": f"{name}-d{end}"})
    noted()
    views.delete(f"/v0/topics/{name}")
    assert [entry[:3] for entry in noted()] == [
        ("delete", "router", f"{name}-a"),
        ("delete", "router", f"{name}-b"),
        ("delete", "topic", name),
    ]


def test_a_cursor_that_is_deleted(views: ApiClient, name: str, noted: Any) -> None:
    views.append(name, 1, 2)
    views.put(f"/v0/topics/{name}/cursors/c", {"seq": 2})
    assert noted() == []
    views.delete(f"/v0/topics/{name}/cursors/c")
    assert noted() == [("delete", "cursor", f"{name}/c", {"seq": 2}, None)]
    views.delete(f"/v0/topics/{name}/cursors/c")
    assert noted() == []


def test_appends_and_reads_are_not_in_it(api: ApiClient, name: str, noted: Any) -> None:
    api.append(name, 1)
    api.diff(name)
    for path in ("", "/records", "/records/1", "/cursors"):
        api.get(f"/v0/topics/{name}{path}")
    api.post("/v0/watch", {"topics": {name: {}}})
    assert noted() == []


def test_what_is_refused_is_not_in_it(api: ApiClient, name: str, noted: Any) -> None:
    api.append(name, 1)
    assert api.delete(f"/v0/topics/{name}?if_empty=true").status == 409
    assert api.put(f"/v0/topics/{name}", {"type": "queue"}).status == 409
    assert api.put(f"/v0/routers/{name}", {"source": name, "dest": "-"}).status == 400
    assert noted() == []


def test_it_says_who_and_from_where(views: ApiClient, name: str, keys: Any) -> None:
    keys("right:admin")
    views.put(f"/v0/topics/{name}", authorization="Bearer right")
    entry = AuditEntry.objects.get(name=name)
    assert (entry.actor[:4], entry.origin) == ("env:", "127.0.0.1")
    assert abs(entry.ts - now_ms()) < 60_000


def test_a_key_of_the_admin_is_known_by_its_name(views: ApiClient, name: str) -> None:
    from topics.models import ApiKey
    from wire.access.keys import keyring, sha256

    made = ApiKey.objects.create(name="deploy", secret_sha256=sha256("tk_deploy"), admin=True, created_ts=0)
    keyring.forget()
    try:
        views.put(f"/v0/topics/{name}", authorization="Bearer tk_deploy")
        entry = AuditEntry.objects.get(name=name)
        assert (entry.actor, entry.actor_name) == (f"key:{made.pk}", "deploy")
    finally:
        made.delete()
        keyring.forget()


def test_the_caller_before_is_not_taken_for_the_caller_now(views: ApiClient, name: str, keys: Any) -> None:
    keys("right:admin")
    views.put(f"/v0/topics/{name}", authorization="Bearer right")
    delete_topic(name, False, now_ms())  # this very thread, with no request around it
    assert [entry.actor[:5] for entry in AuditEntry.objects.filter(name=name).order_by("id")][1] == "local"


def test_it_is_written_with_the_change_or_not_at_all(views: ApiClient, name: str) -> None:
    views.put(f"/v0/topics/{name}")
    with transaction.atomic():
        delete_topic(name, False, now_ms())
        assert AuditEntry.objects.filter(name=name, action="delete").exists()
        transaction.set_rollback(True)
    assert Topic.objects.filter(name=name).exists()
    assert not AuditEntry.objects.filter(name=name, action="delete").exists()


def test_a_running_instance_knows_the_address_too(live: ApiClient, server: Any, name: str) -> None:
    live.put(f"/v0/topics/{name}")
    with server.connect() as database:
        found = database.execute("SELECT actor, origin FROM topics_auditentry WHERE name = %s", [name]).fetchall()
    assert found == [("open", "127.0.0.1")]


def test_old_entries_are_dropped_step_by_step(db: None, settings: Any) -> None:
    settings.TOPICS_AUDIT_DAYS = 2
    now = now_ms()
    AuditEntry.objects.all().delete()
    for days in (0, 1, 3, 4, 5):
        AuditEntry.objects.create(
            ts=now - days * audit.DAY_MS, actor="a", action="create", kind="topic", name=str(days)
        )
    assert audit.drop_old(now, limit=2) == 2
    assert set(AuditEntry.objects.values_list("name", flat=True)) == {"0", "1", "3"}
    assert audit.drop_old(now, limit=2) == 1
    assert audit.drop_old(now, limit=2) == 0
    assert set(AuditEntry.objects.values_list("name", flat=True)) == {"0", "1"}


def test_the_sweep_drops_them(db: None) -> None:
    from topics.tasks import expire

    AuditEntry.objects.create(ts=1, actor="a", action="create", kind="topic", name="old")
    expire()
    assert not AuditEntry.objects.filter(name="old").exists()
