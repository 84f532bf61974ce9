"""A look of the background reads what is due, however much there is that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from tests.plans import NOW, OTHERS
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
STEPPED = "INSERT INTO topics_clockstep (topic_id, upto_seq, ts, until_ts) SELECT id, 1, 1, 2 FROM topics_topic"


@pytest.fixture(params=[True, False], ids=["analyzed", "never analyzed"])
def fill(db: None, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`fill(sql)` makes rows, and then the planner knows about them or not."""

    def fill(sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            if request.param:
                cursor.execute("ANALYZE")

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
    with connection.cursor() as cursor:
        cursor.execute(OTHERS, {"each": 0})
    fill(STEPPED)
    assert pages(lambda: retention.expired_topics(NOW, 10)) <= 200
    assert pages(lambda: retention.set_clocks(NOW, 10)) <= 200
    assert ClockStep.objects.count() == 3_000
