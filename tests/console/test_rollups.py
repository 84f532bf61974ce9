"""The pages of a topic and a router draw the figures of a rollup. Without a rollup, they draw nothing."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from base.clock import now_ms
from pipeline.delays import bucket
from pipeline.models import Delay, Rollup
from routers.routers import RouterConfig
from tests.admin.pages import put, text
from tests.scripts import put_router

MINUTE_MS = 60_000


@pytest.mark.django_db
def test_rollups_are_drawn_where_there_are_any(browser: Client) -> None:
    topic = put("orders", "1", "2")
    put_router("orders->audit", RouterConfig(source="orders", dest="audit"), now_ms())
    pages = ("/admin/topic/orders/", "/admin/router/orders-%3Eaudit/")
    assert [text(browser.get(page).content.decode()).count("(rollup)") for page in pages] == [0, 0]

    minute_ts = (now_ms() // MINUTE_MS - 10) * MINUTE_MS
    size = {"records": 60, "bytes": 240_000, "first_seq": 1, "last_seq": 60}
    Rollup.objects.create(topic_id=topic.pk, minute_ts=minute_ts, node="", tag_prefix="", **size)
    for delay_ms, records in ((4, 98), (900, 2)):
        found = {"router": "orders->audit", "minute_ts": minute_ts, "topic_id": topic.pk}
        Delay.objects.create(bucket=bucket(delay_ms), records=records, **found)
    of_topic, of_router = (text(browser.get(page).content.decode()) for page in pages)
    assert "Payload per second (rollup)" in of_topic
    assert "2.0 kB/s" in of_topic  # a minute's bytes over the two minutes of a point
    assert "Forwarding delay (rollup)" in of_router
    shown = re.search(r"p50 ([\d.]+) ms p95 [\d.]+ ms p99 ([\d.]+) ms", of_router)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(4, rel=0.1)
    assert float(shown[2]) == pytest.approx(900, rel=0.1)  # a bucket's middle
