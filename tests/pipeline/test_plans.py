"""The tidying of unnamed writes reads the oldest ones, however many younger ones and other writers there are."""

from __future__ import annotations

import pytest
from django.db import connection

from base.clock import now_ms
from pipeline import tasks
from pipeline.models import Written

FILL = """
INSERT INTO pipeline_written (topic_id, writer, partition, batch, records, ts)
SELECT n, 'query', 0, 1, 1, 1 FROM generate_series(1, 20000) n
 UNION ALL
SELECT n, 'once:' || n, 0, 0, 1, CASE WHEN n <= 5 THEN 1 ELSE %s END FROM generate_series(1, 20000) n
"""
PAGES = "SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class WHERE relname ^@ 'pipeline_written'"


@pytest.mark.parametrize("is_analyzed", [True, False])
def test_old_unnamed_writes_go_and_few_others_are_read(db: None, is_analyzed: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILL, [now_ms()])
        if is_analyzed:
            cursor.execute("ANALYZE pipeline_written")
        tasks.start_due()
        assert not Written.objects.filter(writer__startswith="once:", ts=1).exists()
        assert Written.objects.count() == 39_995
        cursor.execute(PAGES)
        ((before,),) = cursor.fetchall()
        tasks.start_due()
        cursor.execute(PAGES)
        ((after,),) = cursor.fetchall()
    assert after - before <= 100
