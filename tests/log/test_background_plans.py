"""A look of the background reads what is due, however much there is that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from tests.plans import NOW
from topics.cache import forget_all
from topics.models import ClockStep
from topics.upkeep import reclaim, retention

PAGES = "SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class WHERE relname ^@ 'topics_'"
HELD = f"""
INSERT INTO topics_deletedtopic (id, name, deleted_ts, due_ts)
SELECT n, 'gone', 0, CASE WHEN n <= 5 THEN {NOW} ELSE {NOW} + n END FROM generate_series(1, 20000) n;
INSERT INTO topics_reclaim (topic_id, next_seq, reclaimed_records, held_records, updated_ts)
SELECT n, (1::bigint << 62) + 1, 0, 1, {NOW} FROM generate_series(1, 20000) n
"""
STEPPED = """
INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create,
                          idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable,
                          created_ts)
SELECT 'stepped' || n, 'log', 0, 0, 0, 'old', 'disk', true, true, 0, true, 0, 0, 0, false, 0 FROM generate_series(1, 3000) n;
INSERT INTO topics_topichead (topic_id, head_seq, floor_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq, source_lost_seq,
                              holes_seq, count, bytes, total, last_ts, last_read_ts, version, unsettled)
SELECT id, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, false FROM topics_topic;
INSERT INTO topics_clockstep (topic_id, upto_seq, ts, until_ts) SELECT id, 1, 1, 2 FROM topics_topic
"""
TABLES = "topics_topic, topics_topichead, topics_clockstep, topics_deletedtopic, topics_reclaim"


@pytest.fixture(params=[True, False], ids=["analyzed", "never analyzed"])
def fill(db: None, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`fill(sql)` makes rows, and then the planner knows about them or not."""

    def fill(sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            if request.param:
                cursor.execute(f"ANALYZE {TABLES}")

    forget_all()
    return fill


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
def pages(request: pytest.FixtureRequest) -> Callable[[Callable[[], Any]], int]:
    """`pages(work)` returns the pages that work reads."""

    def read() -> int:
        with connection.cursor() as cursor:
            cursor.execute(PAGES)
            return int(cursor.fetchone()[0])

    def pages(work: Callable[[], Any]) -> int:
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL plan_cache_mode = {request.param}")
        work()  # the first time, PostgreSQL plans
        before = read()
        work()
        return read() - before

    return pages


def test_reclaim_reads_the_deleted_topics_that_are_due(
    fill: Callable[[str], None], pages: Callable[[Callable[[], Any]], int]
) -> None:
    fill(HELD)
    assert sorted(reclaim.due(NOW)) == [1, 2, 3, 4, 5]
    assert pages(lambda: reclaim.due(NOW)) <= 100


def test_the_background_reads_some_steps_of_clocks_at_a_time(
    fill: Callable[[str], None], pages: Callable[[Callable[[], Any]], int]
) -> None:
    fill(STEPPED)
    assert pages(lambda: retention.expired_topics(NOW, 10)) <= 200
    assert pages(lambda: retention.set_clocks(NOW, 10)) <= 200
    assert ClockStep.objects.count() == 3_000
