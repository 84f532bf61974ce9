"""The figures of many groups touch each group and its members, and the shares of the groups that they show (tests/plans.py)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from groups import figures, metrics
from store.database import prepared
from store.script import run
from tests.plans import NOW, believing, check, rolled_back, topics
from wire.access.keys import OPEN

__all__ = ["rolled_back", "topics"]
pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("rolled_back")]
GROUPS, SHARES, ALONE = 1000, 16, 20
# All groups are behind. All but ALONE have a member.
FILL = """
UPDATE topics_topichead SET head_seq = 5, count = 5 FROM topics_topic t WHERE t.id = topic_id AND t.name ^@ 'other';
INSERT INTO groups_group (topic_id, name, partition_by, partitions, start, created_ts)
SELECT id, 'g', 'tag', %(shares)s, 'tail', 0 FROM topics_topic WHERE name ^@ 'other' ORDER BY id LIMIT %(groups)s;
INSERT INTO groups_share (group_id, share, seq, updated_ts)
SELECT id, share, 1, 0 FROM groups_group, generate_series(0, %(shares)s - 1) share;
INSERT INTO groups_member (group_id, name, session_ms, joined_ts, seen_ts)
SELECT id, 'm', 10000, 0, 8000000000000 FROM groups_group ORDER BY id OFFSET %(alone)s
"""


def fill() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"shares": SHARES, "groups": GROUPS, "alone": ALONE})
    return {}


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_the_figures_of_groups_touch_the_shares_that_they_show(topics: dict[str, int]) -> None:
    """Both read the 1,000 groups and their members, which are small tables, as a whole."""
    for _ in range(7):  # PostgreSQL may take one plan for all values from the sixth call on
        most = 2 * GROUPS + ALONE * (SHARES + 6)
        check(most, lambda: run(figures.abandoned(8, NOW)), whole=True)
        most = 2 * GROUPS + 100 * (SHARES + 6)
        check(most, lambda: run(figures.named(run(figures.following("", "", "~", 100)), NOW)), whole=True)
    assert len(run(figures.abandoned(100, NOW))) == ALONE


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_the_metrics_of_groups_look_up_each_topic_once(topics: dict[str, int]) -> None:
    """All groups, their members and their shares are read once, and neither a topic nor a record of each group on its own."""
    run(metrics.collect(OPEN))  # reads the first unread record of each group, which a process remembers
    pages = (
        2 if connection.pg_version >= 170_000 else 9
    ) * GROUPS  # before 17, each key of a list is a look-up of its own
    for _ in range(7):
        check(GROUPS * (SHARES + 8), lambda: run(metrics.collect(OPEN)), pages=pages, whole=True)


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_the_metrics_of_groups_compare_groups_and_not_their_shares(topics: dict[str, int]) -> None:
    ids, of = zip(*prepared("SELECT id, topic_id FROM groups_group", ()), strict=True)
    wanted = {"ids": list(ids), "topics": list(of), "most": metrics.MOST_SHARES}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {metrics.SHARES}", wanted)
        [[[explained]]] = cursor.fetchall()
    assert compared(explained["Plan"]) <= 2 * GROUPS * GROUPS, explained


def compared(plan: dict[str, Any]) -> int:
    """Returns the pairs of rows that joins compared without a match."""
    below = sum(map(compared, plan.get("Plans", ())))
    return below + plan.get("Rows Removed by Join Filter", 0) * plan["Actual Loops"]
