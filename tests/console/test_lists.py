"""The lists of topics, routers, queues, groups, readers, webhooks and subscribers."""

from __future__ import annotations

import re
from urllib.parse import unquote

import msgspec
import pytest
from django.test import Client

from base.clock import now_ms
from console.health import signals
from console.health.processes import living
from console.history.samples import MINUTE_MS, sample
from console.lists import kinds, lists
from console.lists.kinds import KINDS
from console.live import live
from push.models import Webhook
from push.webhooks import webhooks
from push.webhooks.config import PutWebhook
from routers.routers import RouterConfig, set_paused
from store.script import run
from tests.admin.pages import text
from tests.scripts import append, put_router, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config
from topics.cursors.named import move
from wire.access.keys import OPEN

pytestmark = pytest.mark.django_db


def fill(name: str, count: int) -> None:
    wanted = Append([NewRecord(msgspec.Raw(b"1")) for _ in range(count)])
    append(name, wanted, check_rows(wanted), now_ms())


def rows(browser: Client, address: str) -> list[list[str]]:
    """Returns the texts of the cells."""
    page = browser.get(address).content.decode().partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [" ".join(text(cell).split()) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        for row in page.split("<tr>")[1:]
    ]


@pytest.fixture
def shop() -> None:
    """A topic that a reader and a paused router have not read, and what else can be listed."""
    put_topic("shop.orders", Config(), now_ms())
    put_topic("shop.jobs", Config(type="queue"), now_ms())
    put_router("orders-audit", RouterConfig(source="shop.orders", dest="audit"), now_ms())
    run(set_paused("orders-audit", True))
    run(move("shop.orders", "billing", 0, None, now_ms()))
    minute = now_ms() // MINUTE_MS * MINUTE_MS
    sample(minute - MINUTE_MS)
    fill("shop.orders", 120)
    sample(minute)


def test_a_row_says_how_an_object_does(browser: Client, shop: None) -> None:
    *_, orders = rows(browser, "/admin/list/topics/")
    assert orders[:3] == ["shop.orders", "behind", "2.0/s"]
    assert (orders[4], orders[6], orders[8]) == ("120", "2", "120")
    (router,) = rows(browser, "/admin/list/routers/")
    assert (router[1], router[4], *router[7:]) == ("paused", "120", "shop.orders", "audit")
    (reader,) = rows(browser, "/admin/list/readers/")
    assert (*reader[:3], reader[4], *reader[7:]) == ("billing", "behind", "2.0/s", "120", "shop.orders", "0")


def test_what_is_in_trouble_comes_first_with_its_problem(browser: Client, shop: None) -> None:
    put_topic("aaa", Config(), now_ms())
    now = now_ms() + 700_000  # so the reader has not advanced for ten minutes
    signals.judge(living(now, 0), now)
    said = " ".join(text(browser.get("/admin/list/readers/?state=trouble").content.decode()).split())
    assert "Cursor billing of shop.orders has not advanced and is 120 records behind." in said
    put_router("aaa", RouterConfig(source="aaa", dest="bbb"), now_ms())
    assert [row[0].split()[0] for row in rows(browser, "/admin/list/routers/")] == ["orders-audit", "aaa"]
    assert [row[0].split()[0] for row in rows(browser, "/admin/list/routers/?state=trouble")] == ["orders-audit"]


def test_namespaces_fold_and_pages_follow_each_other(browser: Client) -> None:
    for number in range(45):
        for name in (f"n{number:02}x.a", f"n{number:02}x.b"):
            run(webhooks.put(name, PutWebhook(url="https://example.com/", topics=["orders"]), OPEN, now_ms()))
    seen, address = [], "/admin/list/webhooks/"
    while address:
        page = browser.get(address).content.decode()
        seen += rows(browser, address)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = f"/admin/list/webhooks/{unquote(following[1]).replace('&amp;', '&')}" if following else ""
    assert seen == [[f"n{number:02}x.", "2 webhooks"] for number in range(45)]
    within = rows(browser, "/admin/list/webhooks/?prefix=n07x.")
    assert [row[0] for row in within] == ["n07x.a", "n07x.b"]


def hook(name: str, **fields: object) -> None:
    run(webhooks.put(name, PutWebhook(url="https://example.com/", topics=["orders"]), OPEN, now_ms()))
    Webhook.objects.filter(name=name).update(**fields)


def test_a_prefix_finds_trouble_behind_that_of_others(
    browser: Client, shop: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "MOST_TROUBLED", 2)
    monkeypatch.setattr(lists, "MOST_TROUBLED", 2, raising=False)
    for name in ("a.1", "a.2", "a.3", "z.1"):
        hook(name, paused=True)
        put_router(name, RouterConfig(source="shop.orders", dest=f"to.{name}", start="earliest"), now_ms())
        run(set_paused(name, True))
    for path in ("webhooks", "routers"):
        address = f"/admin/list/{path}/?state=trouble"
        assert [row[0] for row in rows(browser, f"{address}&prefix=z.")] == ["z.1"]
        assert "There are more" not in browser.get(f"{address}&prefix=z.").content.decode()
        assert len(rows(browser, address)) == 2
        assert f"There are more: all {path} ." in text(browser.get(address).content.decode())


def test_the_list_of_readers_has_no_prefix(browser: Client, shop: None) -> None:
    """Neither have its rows in trouble, and what its stream sends."""
    put_topic("aaa", Config(), now_ms())
    run(move("aaa", "mailer", 0, None, now_ms()))
    now = now_ms() + 700_000
    signals.judge(living(now, 0), now)
    for state in ("", "trouble"):
        every, of_prefix = (
            [row[0] for row in rows(browser, f"/admin/list/readers/?state={state}&prefix={prefix}")]
            for prefix in ("", "aaa")
        )
        assert of_prefix == every
        assert every
        streamed = live.PARTS["list-readers"].render(f"prefix=aaa&state={state}")
        assert "shop.orders" in streamed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
@pytest.mark.parametrize("prefix", ["\x01", "\ue000", "\U0010ffff"], ids=ascii)
def test_a_list_takes_a_prefix_that_no_name_has(browser: Client, shop: None, kind: object, prefix: str) -> None:
    answer = browser.get(f"/admin/list/{kind.path}/", {"prefix": prefix})  # type: ignore[attr-defined]
    assert answer.status_code == 200


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_each_list_is_live_and_says_when_it_is_empty(browser: Client, kind: object) -> None:
    path = kind.path  # type: ignore[attr-defined]
    page = browser.get(f"/admin/list/{path}/").content.decode()
    assert f'data-live="list-{path}/' in page
    assert live.PARTS[f"list-{path}"].render("state=") in page
    assert "None is so" in browser.get(f"/admin/list/{path}/?state=trouble").content.decode()
