"""Removes the records that a restart takes: `ephemeral` records always, and volatile records after a crash of PostgreSQL.

A reader gets a tombstone with the reason `restart`. The seqs are not used again (docs/guarantees.md).
"""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction

from store import serving
from topics.heads import LOCK_HEAD
from topics.models import Topic

# Without a crash, the function only looks at a mark (sql/functions/topics_recover.sql). Before the first migration, the
# function does not exist. A standby has no unlogged tables, so it cannot serve reads either.
RECOVER = """
DO $$ BEGIN
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction USING MESSAGE = 'PostgreSQL is a standby';
    END IF;
    IF to_regproc('topics_recover') IS NOT NULL THEN PERFORM topics_recover(); END IF;
END $$
"""
EMPTY = "SELECT (topic_trim(topic_id, head_seq, 'restart')).records FROM topics_topichead WHERE topic_id = %s"


def recover(connection: Any, **_: Any) -> None:
    """Runs on each new connection of Django (topics_project/wiring.py). A crash of PostgreSQL ends all older connections."""
    with connection.cursor() as cursor:
        cursor.execute(RECOVER)


def empty_ephemeral() -> int | None:
    """Empties the `ephemeral` topics, once when the service starts, before the first append. Returns the number of records.

    Returns None if a web process already serves the database. Then the caller joins a running service, and no record is
    lost.
    """
    topics = Topic.objects.filter(durability=Topic.Durability.EPHEMERAL, head__count__gt=0)
    if not topics.exists():
        return 0
    with serving.alone() as alone:
        return sum(empty(id) for id in list(topics.order_by("pk").values_list("pk", flat=True))) if alone else None


def empty(topic_id: int) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK_HEAD, [topic_id])
        cursor.execute(EMPTY, [topic_id])
        row = cursor.fetchone()
    return int(row[0]) if row else 0  # no row: the topic was deleted since
