"""A look at what is due reads only what is due, however many records wait."""

from __future__ import annotations

import pytest
from django.db import connection

from base.clock import now_ms
from push.webhooks import webhooks
from push.webhooks.config import PutWebhook
from push.webhooks.sources import DUE
from store.script import run
from wire.access.keys import OPEN

WAIT = """
INSERT INTO push_webhookwaiting (webhook_id, topic_id, seq, topic, attempts, first_ts, next_ts)
SELECT %s, 1, n, 't', 1, 1, CASE WHEN n <= 5 THEN n ELSE 9000000000000 END FROM generate_series(1, 20000) n
"""
PAGES = """
SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class WHERE relname ^@ 'push_webhookwaiting'
"""


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("is_analyzed", [True, False])
def test_a_look_reads_what_is_due(db: None, plans: str, is_analyzed: bool) -> None:
    wanted = PutWebhook(url="https://example.com/", topics=["t"])
    webhook = run(webhooks.put("due", wanted, OPEN, now_ms())).webhook
    with connection.cursor() as cursor:
        cursor.execute(WAIT, [webhook.id])
        if is_analyzed:
            cursor.execute("ANALYZE push_webhookwaiting")
        cursor.execute(f"SET LOCAL plan_cache_mode = {plans}")
        for _ in range(2):  # the first look plans
            cursor.execute(PAGES)
            ((before,),) = cursor.fetchall()
            cursor.execute(DUE, [webhook.id, 1_000])
            assert [seq for _, seq, *_ in cursor.fetchall()] == [1, 2, 3, 4, 5]
            cursor.execute(PAGES)
            ((after,),) = cursor.fetchall()
        assert after - before <= 10
