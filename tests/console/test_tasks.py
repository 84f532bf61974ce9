"""What an operator does: each task is at most three clicks, or filled forms, away from the overview."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin

import pytest
from django.test import Client

from base.clock import now_ms
from console.history import samples
from console.models import Process
from push.models import Webhook
from push.webhooks import webhooks
from push.webhooks.config import PutWebhook
from routers.models import Router
from routers.routers import RouterConfig
from store.script import run
from tests.admin.pages import put, text
from tests.scripts import catch_up, move, put_router
from topics.models import Cursor, Topic
from wire.access.keys import OPEN

HOUR_MS = 3_600_000
LINK = re.compile(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


@pytest.fixture
def site(browser: Client) -> Client:
    """A busy topic with a router that is blocked, a reader that has stopped, a failing webhook, and a process that has died."""
    put("orders", "1")
    samples.sample(now_ms() - 60_000)
    put("orders", '{"order": 7}', "3", tag="vip:7")
    put_router("orders->audit", RouterConfig(source="orders", dest="audit", start="earliest"), now_ms())
    catch_up(Topic.objects.get(name="audit").pk, now_ms())
    put("orders", "4")
    Router.objects.update(state="blocked", last_error="the dest is full")
    move("orders", "billing", 1, None, now_ms())
    Cursor.objects.filter(name="billing").update(updated_ts=now_ms() - HOUR_MS)
    run(webhooks.put("shop", PutWebhook(url="https://example.com/", topics=["orders"]), OPEN, now_ms()))
    Webhook.objects.update(failures=9, last_error="connection refused")
    Process.objects.create(
        id="worker", kind="worker", host="h", pid=1, started_ts=now_ms() - HOUR_MS, seen_ts=now_ms() - 600_000
    )
    return browser


def click(browser: Client, address: str, name: str) -> str:
    """Returns the address behind the first link of a page with this name."""
    page = browser.get(address).content.decode()
    found = {unescape(text(inner)): unescape(href) for href, inner in reversed(LINK.findall(page))}
    assert name in found, f"{address} has the links {sorted(found)}"
    return urljoin(address, found[name])


@pytest.mark.parametrize(
    ("clicks", "seen"),
    [
        pytest.param(["orders"], "billing", id="why a reader is late, and who consumes"),
        pytest.param(["orders", "Records", "2"], "Written here", id="a record, and where it came from"),
        pytest.param(["orders->audit", "Pause"], "Pause", id="pause a router"),
        pytest.param(["Open the router", "Move the cursor"], "which is skipped", id="skip what blocks a router"),
        pytest.param(["Keys", "Add API key"], "Prefixes", id="a key for a prefix"),
        pytest.param(["Open the webhook", "Send all failed again"], "Send", id="send what a webhook has not taken"),
        pytest.param(["orders", "Trim"], "Before seq", id="trim a topic"),
        pytest.param(["Open the processes"], "worker", id="a process that died"),
        pytest.param(["1h ago"], "1h ago", id="the rate against an hour ago"),
    ],
)
def test_an_operator_is_there_in_three_clicks(site: Client, clicks: list[str], seen: str) -> None:
    assert len(clicks) <= 3
    address = "/admin/"
    for name in clicks:
        address = click(site, address, name)
    assert seen in text(site.get(address).content.decode())


def test_records_of_a_tag_and_a_time_are_a_file_in_three_clicks(site: Client) -> None:
    """The topic, its records with the filled form, and the download."""
    address = click(site, click(site, "/admin/", "orders"), "Records")
    page = site.get(address, {"tag": "vip:7", "at": "2031-05-17T12:00"}).content.decode()
    (file,) = re.findall(r'href="([^"]*\.csv[^"]*)"', page)
    assert "tag=vip%3A7" in file
    assert text(page).count("vip:7") >= 2
