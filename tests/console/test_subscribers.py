"""The page of a subscriber of the bus."""

from __future__ import annotations

import re

import msgspec
import pytest
from django.db import connection
from django.test import Client

from base.clock import now_ms
from base.errors import NotFound
from console.live import live
from push.bus.names import QUEUE
from push.models import BusClient, Delivery, Subscriber
from tests.admin.pages import text
from tests.scripts import append, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config

MAKE_CURSOR = """
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT id, 'subscription', 'shop', 0, 0, 1 FROM topics_topic WHERE name = %s
"""


@pytest.fixture
def shop(db: None) -> Subscriber:
    """A subscriber whose second batch fails: three events wait."""
    client, queue = BusClient.objects.create(name="shop", token="t", created_ts=1), f"{QUEUE}shop"
    put_topic(queue, Config(), now_ms())
    wanted = Append([NewRecord(msgspec.Raw(b'{"type": "noop"}')) for _ in range(3)])
    append(queue, wanted, check_rows(wanted), now_ms())
    with connection.cursor() as cursor:
        cursor.execute(MAKE_CURSOR, [queue])
    batch = {"batch_id": "b2", "batch_first_seq": 1, "batch_last_seq": 3, "batch_attempts": 1}
    known = {
        "callback": "https://example.com/",
        "created_ts": 1,
        "last_error": "answered 500",
        "retry_ts": now_ms() + 60_000,
    }
    subscriber = Subscriber.objects.create(client=client, queue=queue, **known, **batch)
    for number, error in enumerate([None] * 7 + ["answered 500"]):
        Delivery.objects.create(
            subscriber=subscriber,
            ts=now_ms() - 60_000,
            batch_id=f"b{number}",
            attempt=1,
            status=500 if error else 200,
            error=error,
            duration_ms=number * 10 + 0.4,
            events=1,
            bytes=1,
            first_seq=number + 1,
            last_seq=number + 1,
        )
    return subscriber


def test_a_page_shows_the_figures_the_batch_and_the_calls(browser: Client, shop: Subscriber) -> None:
    address = f"/admin/subscriber/{shop.pk}/"
    page = browser.get(address).content.decode()
    said = " ".join(text(page).split())
    assert "1 attempt of its batch failed. 3 events wait. The next attempt comes in" in said
    assert (
        "Of the last 8 calls 1 failed Success rate 87.5 % Half of them within 30 ms 99 % of them within 70 ms" in said
    )
    assert "Seqs 1 to 3, 1 attempt." in said
    assert "noop" in said
    assert f'data-live="subscriber/3h/{shop.pk}"' in page
    again = f"/admin/push/subscriber/{shop.pk}/redeliver/?seq="
    assert page.count(again) == 7  # the failed batch is tried again by itself
    assert 'value="3"' in browser.get(f"{again}3").content.decode()
    failed = browser.get(f"{address}?outcome=failed").content.decode().partition("<h2>Calls</h2>")[2]
    assert re.findall(r"records/(\d+)/", failed) == ["8"]
    assert "No call of the last days is so" in browser.get(f"{address}?since=2099-01-01T00:00").content.decode()
    assert browser.get("/admin/subscriber/999999/").status_code == 404


@pytest.mark.parametrize("number", ["1e400", "12345678901234567890.10"])
def test_an_event_with_a_number_that_python_has_not_is_shown(browser: Client, shop: Subscriber, number: str) -> None:
    wanted = Append([NewRecord(msgspec.Raw(b'{"type": "noop", "data": %b}' % number.encode()))])
    append(shop.queue, wanted, check_rows(wanted), now_ms())
    Subscriber.objects.update(batch_last_seq=4)
    for url in (f"/admin/subscriber/{shop.pk}/", f"/admin/push/subscriber/{shop.pk}/skip/"):
        assert number in browser.get(url).content.decode()


def test_the_part_is_live(shop: Subscriber) -> None:
    assert "Success rate" in live.PARTS["subscriber"].render(f"3h/{shop.pk}")
    with pytest.raises(NotFound):  # which a live part takes for the end of its object
        live.PARTS["subscriber"].render("3h/999999")


def test_it_is_paused_resumed_and_tried_again(browser: Client, shop: Subscriber) -> None:
    def post(paused: str) -> tuple[bool, int, str]:
        page = browser.post(f"/admin/subscriber/{shop.pk}/pause/", {"paused": paused}, follow=True).content.decode()
        shop.refresh_from_db()
        return shop.paused, shop.retry_ts, text(page.partition("messagelist")[2].partition("</ul>")[0])

    is_paused, retry_ts, said = post("0")
    assert (is_paused, retry_ts) == (False, 0)
    assert "hop is tried again now." in said
    assert post("1")[0] is True
    assert ">Resume</button>" in browser.get(f"/admin/subscriber/{shop.pk}/").content.decode()
    assert "hop is running again." in post("0")[2]


def test_a_viewer_changes_nothing(viewer: Client, shop: Subscriber) -> None:
    assert viewer.post(f"/admin/subscriber/{shop.pk}/pause/", {"paused": "1"}).status_code == 403
    assert "Try again now" not in viewer.get(f"/admin/subscriber/{shop.pk}/").content.decode()
