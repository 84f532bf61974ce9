"""The pages of webhooks: the list with those in trouble first, a webhook with its calls, and what an operator does with it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from base.clock import now_ms
from console.health import problems
from console.history import samples
from console.live import live
from push.webhooks import webhooks
from push.webhooks.config import PutWebhook
from push.webhooks.webhooks import Stored
from store.script import run
from tests.admin.pages import text
from tests.scripts import append, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config
from topics.models import AuditEntry
from wire.access.keys import OPEN

EVIL = "<script>alert(1)</script>"
LOG = """
INSERT INTO push_webhooklog
    (webhook_id, ts, topic, first_seq, last_seq, records, message, attempt, state, status, ms, error, answer)
VALUES (%s, %s, 'orders', %s, %s, 1, 'msg_1', 1, %s, %s, %s, %s, %s)
"""
FAILED = """
INSERT INTO push_webhookfailed (webhook_id, topic_id, seq, ts)
SELECT %s, id, %s, %s FROM topics_topic WHERE name = 'orders'
"""


def put(name: str, *topics: str) -> Stored:
    wanted = PutWebhook(url=f"https://example.com/{name}", topics=list(topics), start="earliest")
    return run(webhooks.put(name, wanted, OPEN, now_ms())).webhook


def change(webhook: Stored, **values: Any) -> None:
    with connection.cursor() as cursor:
        for column, value in values.items():
            cursor.execute(f"UPDATE push_webhook SET {column} = %s WHERE id = %s", (value, webhook.id))


def log(webhook: Stored, seq: int, state: str, status: int | None, ms: int, error: str | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(LOG, (webhook.id, now_ms(), seq, seq, state, status, ms, error, error and f"no {EVIL}"))
        if state == "dead":
            cursor.execute(FAILED, (webhook.id, seq, now_ms()))


@pytest.fixture
def shop(db: None) -> Stored:
    """A webhook of a topic with three records. Two were delivered, and one has no attempt left."""
    put_topic("orders", Config(), now_ms())
    wanted = Append([NewRecord(b"1") for _ in range(3)])  # type: ignore[arg-type]
    append("orders", wanted, check_rows(wanted), now_ms())
    webhook = put("shop", "orders", "eu.*")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_cursor SET seq = 3 WHERE kind = 'webhook'")
    log(webhook, 1, "delivered", 204, 12)
    log(webhook, 2, "dead", 500, 80, "the endpoint answered 500")
    log(webhook, 3, "delivered", 200, 14)
    return webhook


def listed(browser: Client, query: str = "") -> list[str]:
    return re.findall(r'href="/admin/webhook/(\w+)/"', browser.get(f"/admin/list/webhooks/{query}").content.decode())


def test_the_list_begins_with_trouble(browser: Client, shop: Stored) -> None:
    change(put("audit", "orders"), failures=7, last_error="connection refused")
    change(put("zoo", "orders", "a", "b", "c"), paused=True, pause_reason="the endpoint answered 410")
    page = browser.get("/admin/list/webhooks/").content.decode()
    assert listed(browser) == ["audit", "zoo", "shop"]
    assert "connection refused" in page
    assert "orders, eu.*" in page
    assert "orders, a, b, …" in page
    assert "the endpoint answered 410" in page
    assert listed(browser, "?state=paused") == ["zoo"]
    assert listed(browser, "?state=failing") == ["audit"]
    assert listed(browser, "?state=trouble") == ["audit", "zoo"]


def test_a_page_shows_the_figures_and_the_calls(browser: Client, shop: Stored) -> None:
    page = browser.get("/admin/webhook/shop/").content.decode()
    said = " ".join(text(page).split())
    assert "Of the last 3 calls 1 failed" in said
    assert "Half of them within 14 ms" in said
    assert "99 % of them within 80 ms" in said
    assert "the endpoint answered 500" in said
    assert EVIL not in page
    assert 'data-live="webhook/3h/shop"' in page
    assert "All topics eu.*" in said
    assert browser.get("/admin/webhook/none/").status_code == 404


@pytest.mark.parametrize(
    ("query", "seqs"),
    [
        ("", ["3", "2", "1"]),
        ("outcome=dead", ["2"]),
        ("topic=orders&seq=1", ["1"]),
        ("topic=payments", []),
        ("time_0=2030-01-01", ["3", "2", "1"]),
        ("since=2099-01-01T00:00", []),
    ],
)
def test_calls_are_chosen(browser: Client, shop: Stored, query: str, seqs: list[str]) -> None:
    calls = browser.get(f"/admin/webhook/shop/?{query}").content.decode().partition("<h2>Calls</h2>")[2]
    assert re.findall(r'/orders/records/(\d+)/"', calls.partition("</section>")[0]) == seqs


def test_a_seq_alone_is_refused(browser: Client, shop: Stored) -> None:
    assert "enter the topic, too" in browser.get("/admin/webhook/shop/?seq=1").content.decode()


def test_the_part_is_live(shop: Stored) -> None:
    assert "Records delivered" in live.PARTS["webhook"].render("3h/shop")


def test_it_is_paused_and_resumed(browser: Client, shop: Stored) -> None:
    assert "Nothing is sent until you resume it" in browser.get("/admin/webhook/shop/pause/").content.decode()
    browser.post("/admin/webhook/shop/pause/")
    assert run(webhooks.find("shop")).pause_reason == "boss paused it in the console"
    assert ">Resume</a>" in browser.get("/admin/webhook/shop/").content.decode()
    browser.post("/admin/webhook/shop/resume/")
    assert not run(webhooks.find("shop")).paused


@pytest.mark.parametrize(
    ("query", "said", "seqs"),
    [
        ("", "gets 1 record that had no attempt left", [2]),
        ("?topic=orders&from=1&to=2", "gets 2 records of orders", [1, 2]),
        ("?since=2001-01-31T09:30", "gets 1 record that had no attempt left since 2001-01-31 09:30:00", [2]),
        ("?since=2099-01-31T09:30", "There is no record that had no attempt left since 2099-01-31 09:30:00", []),
    ],
)
def test_records_are_counted_and_sent_again(
    browser: Client, shop: Stored, query: str, said: str, seqs: list[int]
) -> None:
    address = f"/admin/webhook/shop/replay/{query}"
    assert said in browser.get(address).content.decode()
    assert waiting() == []
    browser.post(address)
    assert waiting() == seqs


def test_a_time_that_is_none_is_refused(browser: Client, shop: Stored) -> None:
    assert browser.get("/admin/webhook/shop/replay/?since=yesterday").status_code == 400


def waiting() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq FROM push_webhookwaiting ORDER BY seq")
        return [seq for (seq,) in cursor.fetchall()]


def test_what_cannot_be_sent_has_no_button(browser: Client, shop: Stored) -> None:
    page = browser.get("/admin/webhook/shop/replay/?topic=payments&from=1&to=1").content.decode()
    assert "has no topic" in page
    assert "again</button>" not in page


def test_a_test_is_sent(browser: Client, shop: Stored) -> None:
    browser.post("/admin/webhook/shop/test/")
    assert len(waiting()) == 1


def rotation(browser: Client) -> dict[str, str]:
    """Returns what the page that asks sends."""
    page = browser.get("/admin/webhook/shop/rotate/").content.decode()
    return dict(re.findall(r'name="(secret|previous_until_ts)" value="([^"]*)"', page))


def test_a_second_click_gives_the_same_secret_and_an_old_page_none(browser: Client, shop: Stored) -> None:
    form, other = rotation(browser), rotation(browser)
    for _ in range(2):
        assert form["secret"] in browser.post("/admin/webhook/shop/rotate/", form).content.decode()
    answer = browser.post("/admin/webhook/shop/rotate/", other, follow=True)
    assert "The webhook was rotated while the page was open" in answer.content.decode()
    found = run(webhooks.find("shop"))
    assert (found.secret, found.previous_secret) == (form["secret"], shop.secret)


def test_a_new_secret_is_shown_once(browser: Client, shop: Stored) -> None:
    answer = browser.post("/admin/webhook/shop/rotate/", rotation(browser))
    secret = run(webhooks.find("shop")).secret
    assert "no-store" in answer["Cache-Control"]
    assert secret in answer.content.decode()
    assert secret not in browser.get("/admin/webhook/shop/").content.decode()
    assert shop.secret == run(webhooks.find("shop")).previous_secret


def test_it_is_deleted_after_a_question(browser: Client, shop: Stored) -> None:
    assert "webhooks.dead.shop" in browser.get("/admin/webhook/shop/delete/").content.decode()
    assert browser.post("/admin/webhook/shop/delete/")["Location"] == "/admin/list/webhooks/"
    assert browser.get("/admin/webhook/shop/").status_code == 404
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.kind, entry.name, entry.actor_name) == ("delete", "webhook", "shop", "boss")


@pytest.mark.parametrize("action", ["pause", "resume", "test", "replay", "rotate", "delete"])
def test_a_viewer_changes_nothing(viewer: Client, shop: Stored, action: str) -> None:
    assert viewer.get(f"/admin/webhook/shop/{action}/").status_code == 403
    assert viewer.post(f"/admin/webhook/shop/{action}/").status_code == 403


def test_an_unknown_action_is_not_found(browser: Client, shop: Stored) -> None:
    assert browser.post("/admin/webhook/shop/explode/").status_code == 404


def test_the_page_of_its_topic_leads_to_it(browser: Client, shop: Stored) -> None:
    readers = browser.get("/admin/topic/orders/").content.decode().partition("<h2>Readers</h2>")[2]
    assert '<a href="/admin/webhook/shop/">' in readers


def test_a_failing_and_a_paused_webhook_are_problems(shop: Stored) -> None:
    change(shop, failures=5, last_error="the endpoint answered 500")
    change(put("zoo", "orders"), paused=True, pause_reason="the endpoint answered 410")
    failing, paused, _ = problems.of_webhooks(now_ms())
    assert (failing.kind, failing.object, failing.level) == ("webhook failing", "webhook shop", "bad")
    assert "5 calls in a row failed, the last one with: the endpoint answered 500" in failing.advice
    assert (paused.kind, paused.object, paused.level) == ("webhook paused", "webhook zoo", "warn")
    assert paused.advice == "The endpoint answered 410. Resume it, or delete it."


def test_records_that_were_given_up_are_a_problem_for_a_day(shop: Stored) -> None:
    """Most calls of the webhook succeed, so it is not failing."""
    now = now_ms()
    (problem,) = problems.of_webhooks(now)
    assert (problem.kind, problem.object, problem.level) == ("records given up", "records of webhook shop", "warn")
    assert problem.text == "Webhook shop gave up 1 record in the last day."
    assert problem.because == ("webhook shop",)
    assert list(problems.of_webhooks(now + samples.DAY_MS + 1)) == []
    with connection.cursor() as cursor:  # a replay delivers it
        cursor.execute("DELETE FROM push_webhookfailed")
    assert list(problems.of_webhooks(now)) == []


def test_its_totals_are_sampled(shop: Stored) -> None:
    now = now_ms() // 60_000 * 60_000
    change(shop, delivered_total=9, calls_total=10, failed_total=1, ms_total=200, last_success_ts=now)
    samples.sample(now)
    samples.sample(now + 60_000)  # nothing has changed
    with connection.cursor() as cursor:
        cursor.execute("SELECT object_id, head_seq, count, errors, bytes FROM console_sample WHERE kind = 'hook'")
        assert cursor.fetchall() == [(shop.id, 9, 10, 1, 200)]


def test_its_samples_are_drawn(browser: Client, shop: Stored) -> None:
    now = now_ms() // 60_000 * 60_000
    for n in range(3):
        change(
            shop, delivered_total=120 * n, calls_total=120 * n, failed_total=0, ms_total=6_000 * n, last_success_ts=now
        )
        samples.sample(now - (2 - n) * 60_000)
    said = " ".join(text(browser.get("/admin/webhook/shop/?range=15m").content.decode()).split())
    assert "records delivered 2/s calls 2/s failed calls 0/s" in said
    assert "Mean time of a call time 50 ms" in said


def test_it_is_found_by_name(browser: Client, shop: Stored) -> None:
    found = browser.get("/admin/find/?q=sho").json()["found"]
    assert {"name": "shop (webhook)", "url": "/admin/webhook/shop/"} in found
