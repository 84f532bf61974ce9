"""Signals: one for each problem, below its cause, with a silence that holds, and closed only when the problem stays away."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from base.clock import now_ms
from console.health import signals
from console.health.cursors import STUCK_MS
from console.health.problems import READY_MS, Problem
from console.models import Signal
from pipeline.models import Schedule
from push.models import Webhook
from push.webhooks import webhooks
from push.webhooks.config import PutWebhook
from push.webhooks.retry import FAILING
from queues.schedules import Times, put_schedule
from routers.routers import RouterConfig
from store.script import atomically, run
from tests.admin.pages import put, text
from tests.console.test_problems import alive, problem, problems
from tests.scripts import move, put_router, put_topic
from topics.append.records import NewRecord, columns
from topics.config import Config
from topics.models import AuditEntry
from wire.access.keys import OPEN

NOW = 1_000_000_000_000
NAMES = st.sampled_from(("a", "b", "c", "d", "e"))


def store(now: int, *found: Problem) -> None:
    run(atomically(signals.store(list(found), signals.NextLook(), now)))


def lag(name: str, records: int = 1, because: tuple[str, ...] = ()) -> Problem:
    return Problem("router stalled", f"router {name}", "warn", f"{name} holds {records}", "", because=because)


def signal(id: int, object: str, because: list[str]) -> signals.StoredSignal:
    named = msgspec.json.encode(because).decode()
    return signals.StoredSignal(id, "kind", object, "bad", "", "", "", "", named, 0, None, 1, "", "", 0)


def test_a_problem_that_comes_and_goes_stays_one_signal(db: None) -> None:
    store(NOW, lag("a"))
    store(NOW + 10_000)
    assert signals.open_signals() == []
    store(NOW + 30_000, lag("a", 2))
    (one,) = signals.open_signals()
    assert (one.since_ts, one.times, one.text) == (NOW, 2, "a holds 2")
    store(NOW + 40_000)
    store(NOW + 99_000)
    assert signals.closed_signals(NOW) == []
    store(NOW + 101_000)
    (closed,) = signals.closed_signals(NOW)
    assert (closed.id, closed.closed_ts) == (one.id, NOW + 40_000)
    store(NOW + 200_000, lag("a"))
    (other,) = signals.open_signals()
    assert (other.since_ts, other.times, other.id > one.id) == (NOW + 200_000, 1, True)
    signals.drop_old(NOW + signals.KEEP_MS + 100_000)
    assert list(Signal.objects.values_list("id", flat=True)) == [other.id]


def test_a_silence_holds_for_the_next_signal_of_the_problem(db: None) -> None:
    now = now_ms()
    store(now, lag("a"), lag("b"))
    one, other = signals.open_signals()
    signals.silence(one, now + 3_600_000, "known, TICKET-7", "ada")
    store(now + 1)
    store(now + 70_000)
    store(now + 80_000, lag("a"), lag("b"))
    again, unsilenced = signals.open_signals()
    assert (again.is_silenced, again.reason, again.silenced_by) == (True, "known, TICKET-7", "ada")
    assert not unsilenced.is_silenced
    assert again.id != one.id
    assert other.reason == ""
    signals.silence(again, 0, "", "ada")
    store(now + 90_000, lag("b"))
    store(now + 160_000, lag("b"))
    store(now + 170_000, lag("a"), lag("b"))
    assert not any(each.is_silenced for each in signals.open_signals())


def told() -> list[tuple[str, str, str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tag, data::text FROM outbox_emitted WHERE topic = 'ops.signals' ORDER BY id")
        said = [(tag, msgspec.json.decode(data)) for tag, data in cursor.fetchall()]
    return [(tag, each["state"], each["text"]) for tag, each in said]


def test_a_topic_gets_the_begin_and_the_end_of_each_problem(db: None, settings: Any) -> None:
    now = now_ms()
    store(now, lag("before"))
    settings.TOPICS_SIGNALS_TOPIC = "ops.signals"
    for n in range(2):
        store(now + n, lag("before"), lag("a"), Problem("no member", "group g", "bad", "Nobody reads.", "Start one."))
    expected = [("router stalled", "open", "a holds 1"), ("no member", "open", "Nobody reads. Start one.")]
    assert told() == expected
    store(now + 2, lag("before"), lag("a", 2))  # only the text of the one changes, and the other is gone for a moment
    store(now + 3, lag("before"), lag("a", 2), Problem("no member", "group g", "bad", "Nobody reads.", ""))
    assert told() == expected
    for n in (4, 70_000):
        store(now + n, lag("before"))
    ended = [("router stalled", "closed", "Over: a holds 2"), ("no member", "closed", "Over: Nobody reads.")]
    assert told()[:2] == expected
    assert sorted(told()[2:]) == sorted(ended)


def router(name: str, place: int) -> None:
    put_router(f"{name}>x", RouterConfig(source=name, dest=f"x.{name}", start="earliest", paused=True), now_ms())
    put(name, *["1"] * (40 - place))


def webhook(name: str, place: int) -> None:
    run(webhooks.put(name, PutWebhook(url="https://example.com/", topics=["orders"]), OPEN, now_ms()))
    Webhook.objects.filter(name=name).update(paused=place > 25, failures=FAILING, last_error="answered 500")


def cursor(name: str, place: int) -> None:
    put(name, *["1"] * (40 - place))
    move(name, "reader", 0, None, now_ms() - 2 * STUCK_MS)


def group(name: str, place: int) -> None:
    topic = put(name, *["1"] * (40 - place))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO groups_group (topic_id, name, partition_by, partitions, start, created_ts)"
            " VALUES (%s, 'billing', 'tag', 1, 'earliest', 1) RETURNING id",
            [topic.pk],
        )
        cursor.execute(
            "INSERT INTO groups_share (group_id, share, seq, updated_ts) VALUES (%s, 0, 0, 1)", cursor.fetchone()
        )


def queue(name: str, place: int) -> None:
    put_topic(name, Config(type="queue"), now_ms())
    topic = put(name, "1")
    with connection.cursor() as cursor:
        age_ms = (41 - place) * READY_MS
        cursor.execute("UPDATE topics_record SET ts = ts - %s WHERE topic_id = %s", [age_ms, topic.pk])


@pytest.mark.parametrize("make", [router, webhook, cursor, group, queue], ids=lambda make: make.__name__)
def test_a_problem_is_not_over_because_others_are_worse(
    db: None, settings: Any, make: Callable[[str, int], None]
) -> None:
    """`make` makes an object in trouble, which comes at this place of the problems of its kind."""
    settings.TOPICS_SIGNALS_TOPIC = "ops.signals"
    now = now_ms()
    make("last", 39)
    signals.judge([], now)
    assert [state for _, state, _ in told()] == ["open"]
    for place in range(25):
        make(f"t{place}", place)
    for later in (1, 70_000):
        signals.judge([], now + later)
    assert len(told()) > 8
    assert {state for _, state, _ in told()} == {"open"}


def schedule(name: str, place: int) -> None:
    Schedule.objects.create(job="rollup", options={"topic": name}, next_ts=now_ms() - 600_000)


def refused(name: str, place: int) -> None:
    put_topic(name, Config(type="queue"), now_ms())
    run(
        put_schedule(
            name, "s", Times(None, "0 3 * * *", "UTC"), columns([NewRecord(msgspec.Raw(b"1"))], None), now_ms()
        )
    )
    with connection.cursor() as cursor:
        cursor.execute("UPDATE queues_schedule SET error = 'no room'")


@pytest.mark.parametrize(
    "make", [router, webhook, cursor, group, queue, schedule, refused], ids=lambda make: make.__name__
)
def test_one_problem_stands_for_those_that_are_not_named(browser: Client, make: Callable[[str, int], None]) -> None:
    for place in range(8):
        make(f"t{place:02}", place)
    signals.judge([], now_ms())
    assert [each.object for each in signals.open_signals() if each.object.startswith("more ")] == []
    for place in range(8, 11):
        make(f"t{place:02}", place)
    signals.judge([], now_ms())
    (more,) = [each for each in signals.open_signals() if each.object.startswith("more ")]
    assert more.text.endswith(": at least 3 more.")
    assert len(signals.open_signals()) == 9
    assert browser.get(more.url).status_code == 200


def test_routers_that_work_leave_room_for_one_that_holds_up_records(db: None) -> None:
    router("held", 39)
    for name in (f"busy{n}" for n in range(9)):
        put_router(f"{name}>x", RouterConfig(source=name, dest=f"x.{name}", start="earliest"), now_ms())
        put(name, "1", "2", "3")
    signals.judge([], now_ms())
    assert [each.object for each in signals.open_signals()] == ["router held>x"]


def test_a_record_is_an_event_of_pagerduty_too(db: None, settings: Any) -> None:
    """PagerDuty closes an incident by the `dedup_key` of the event that opened it, and refuses longer texts."""
    settings.TOPICS_SIGNALS_TOPIC = "ops.signals"
    now, long = now_ms(), "o" * 400
    store(now, Problem("no member", long, "bad", "Nobody reads.", "Start one." * 200))
    store(now + 1)
    store(now + 70_000)
    with connection.cursor() as cursor:
        cursor.execute("SELECT data::text FROM outbox_emitted WHERE topic = 'ops.signals' ORDER BY id")
        begin, end = (msgspec.json.decode(data) for (data,) in cursor.fetchall())
    assert (begin["event_action"], end["event_action"]) == ("trigger", "resolve")
    assert begin["dedup_key"] == end["dedup_key"] == f"no member: {long}"[:255]
    assert (begin["payload"]["source"], begin["payload"]["severity"]) == (long, "error")
    assert len(begin["payload"]["summary"]) == 1024
    assert end["payload"]["summary"] == "Over: Nobody reads."


def test_a_silenced_problem_is_not_told(db: None, settings: Any) -> None:
    settings.TOPICS_SIGNALS_TOPIC = "ops.signals"
    now = now_ms()
    store(now, lag("a"))
    signals.silence(signals.open_signals()[0], now + 3_600_000, "known", "ada")
    for n in (1, 70_000):
        store(now + n)
    store(now + 80_000, lag("a"))
    assert told() == [("router stalled", "open", "a holds 1")]


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3)), max_size=8, unique_by=lambda each: each[0]))
def test_each_signal_is_shown_once_and_below_what_explains_it(drawn: list[tuple[str, list[str]]]) -> None:
    """Also if signals explain each other in a circle."""
    because = dict(drawn)
    found = [signal(id, name, because[name]) for id, name in enumerate(because)]
    causes = signals.by_cause(found)
    shown = [each.id for cause in causes for each in (cause.signal, *cause.effects)]
    assert sorted(shown) == [each.id for each in found]
    root = {each.object: cause.signal.id for cause in causes for each in (cause.signal, *cause.effects)}
    for name in because:
        explains = next((other for other in because[name] if other in because and other != name), name)
        assert root[name] == root[explains]


def test_what_a_missing_worker_holds_up_stands_below_it(browser: Client, db: None) -> None:
    put_router("orders->audit", RouterConfig(source="orders", dest="audit", start="earliest"), now_ms())
    put("orders", "1")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_record SET ts = ts - 60000")
        cursor.execute("UPDATE topics_cursor SET updated_ts = updated_ts - 60000")
    found = problem(browser, "worker has no heartbeat.")
    assert found is not None
    assert "Router orders-&gt;audit is stalled and holds up 1 record for audit." in found
    assert problem(browser, "Router") is None
    alive("worker")
    assert problem(browser, "Router orders-&gt;audit is stalled") is not None


def test_routers_that_wait_for_the_same_full_topic_are_one_problem(browser: Client, db: None) -> None:
    put_topic("audit", Config(cap_records=1, discard="reject"), now_ms())
    for name in ("a", "b", "c"):
        put_router(
            f"{name}->audit", RouterConfig(source=name, dest="audit", start="earliest", allow_fan_in=True), now_ms()
        )
        put(name, "1", "2")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE routers_router SET state = 'blocked', last_error = 'topic audit is full'")
    (found,) = [each for each in problems(browser) if "is blocked" in each]
    assert found.count("is blocked and holds up 2 records for audit") == 3


@pytest.mark.django_db
def test_an_operator_silences_a_problem_with_a_reason(browser: Client) -> None:
    page = browser.get("/admin/").content.decode()
    (address, *_) = re.findall(r"/admin/signals/\d+/silence/", page[page.index("worker has no heartbeat") :])
    assert "worker has no heartbeat." in text(browser.get(address).content.decode())
    refused = browser.post(address, {"hours": 4, "reason": ""})
    assert "This field is required." in refused.content.decode()
    assert browser.post(address, {"hours": 4, "reason": "being upgraded"}).status_code == 302
    page = browser.get("/admin/").content.decode()
    open, _, silenced = page.partition("Problems")[2].partition("1 silenced")
    assert "worker has no heartbeat" not in open
    assert "being upgraded" in silenced
    assert (
        'topics_signals{kind="process silent",level="bad",silenced="1"} 1.0'
        in browser.get("/v0/metrics").content.decode()
    )
    entry = AuditEntry.objects.filter(kind="signal").get()
    assert "being upgraded" in str(entry.after)
    assert browser.post(address, {"action": "end"}).status_code == 302
    assert "1 silenced" not in browser.get("/admin/").content.decode()
    for id in ("999999", "9" * 19):
        assert browser.get(f"/admin/signals/{id}/silence/").status_code == 404


def test_only_who_may_silences(client: Client, db: None) -> None:
    store(now_ms(), lag("a"))
    address = f"/admin/signals/{signals.open_signals()[0].id}/silence/"
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_topic"))
    client.force_login(user)
    assert client.post(address, {"hours": 1, "reason": "x"}).status_code == 403
    assert not signals.open_signals()[0].is_silenced
    user.user_permissions.add(Permission.objects.get(codename="silence_signal"))
    assert client.post(address, {"hours": 1, "reason": "x"}).status_code == 302
    assert signals.open_signals()[0].silenced_by == "viewer"
