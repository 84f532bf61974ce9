"""What a restart takes away: `ephemeral` records by intent, and volatile ones when PostgreSQL crashed.

Readers are told by a tombstone, reason `restart`; seqs are not given out again (docs/guarantees.md).
"""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction

from store import serving
from topics.models import Topic

# One look where nothing happened (sql/topics_recover.sql). Before the first migration there is nothing to look at.
RECOVER = """
DO $$ BEGIN
    IF to_regproc('topics_recover') IS NOT NULL THEN PERFORM topics_recover(); END IF;
END $$
"""
LOCK = "SELECT FROM topics_topichead WHERE topic_id = %s FOR UPDATE"
EMPTY = "SELECT (topic_trim(topic_id, head_seq, 'restart')).records FROM topics_topichead WHERE topic_id = %s"


def recover(connection: Any, **_: Any) -> None:
    """On each new connection of Django's (apps.py): a crash of PostgreSQL has ended all those before."""
    with connection.cursor() as cursor:
        cursor.execute(RECOVER)


def empty_ephemeral() -> int | None:
    """Once when the service starts, before anybody appends: what `ephemeral` topics held is gone. Returns how many records.

    None where a web process serves the database already: then who starts now joins a service that runs, and loses it nothing.
    """
    topics = Topic.objects.filter(durability=Topic.Durability.EPHEMERAL, head__count__gt=0)
    if not topics.exists():
        return 0
    with serving.alone() as alone:
        return sum(empty(id) for id in list(topics.order_by("pk").values_list("pk", flat=True))) if alone else None


def empty(topic_id: int) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK, [topic_id])
        cursor.execute(EMPTY, [topic_id])
        row = cursor.fetchone()
    return int(row[0]) if row else 0  # None: deleted since we looked
