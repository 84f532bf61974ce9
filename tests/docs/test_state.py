"""docs/gateway.md, "What happens to the state of a topic": each table is in a row, or names no topic."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from gateway.routers.copies import STATE
from tests.instances import ROOT
from topics.state import kinds
from topics_project.description import NAMES

SECTION = (
    (ROOT / "docs" / "gateway.md")
    .read_text()
    .partition("### What happens to the state of a topic\n")[2]
    .partition("\n#")[0]
)
# Tables of Django and of its apps.
OF_OTHERS = ("auth_", "axes_", "django_")
# The parts of a table are in the row of the table.
TABLES = """
SELECT relname FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
"""
NAME_NO_TOPIC = {
    "console_count": "counters of this server",
    "console_failure": "failed tasks of this server",
    "console_judgement": "the last look for problems of this server",
    "console_layout": "the last layout of the graph of this server",
    "console_process": "processes of this server",
    "console_signal": "problems of this server",
    "console_task": "tasks of this server",
    "door_limits": "settings of this server",
    "door_right": "logins of this server and their prefixes",
    "push_counter": "counters of this server",
    "store_object": "SQL objects of this server",
    "topics_streamcount": "open streams of this server",
    "topics_survived": "whether PostgreSQL crashed",
    "topics_total": "sums over all topics",
    "topics_upkeeptime": "the last upkeep of this server",
}


@pytest.mark.django_db
def test_each_table_that_names_a_topic_has_a_row() -> None:
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        tables = {name for (name,) in cursor.fetchall() if not name.startswith(OF_OTHERS)}
    rows = [line for line in SECTION.splitlines() if line.startswith("| ") and "`" in line]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[-2])]
    assert len(named) == len(set(named))
    assert set(named).isdisjoint(NAME_NO_TOPIC)
    assert set(named) | NAME_NO_TOPIC.keys() == tables
    for row in rows:
        assert all(cell.strip() for cell in row.split("|")[1:-1]), row


def test_a_move_copies_each_kind_of_state() -> None:
    assert set(STATE) == set(kinds.value) == set(NAMES["kind"]["schema"]["enum"])
