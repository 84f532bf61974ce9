"""The settings that bound a call of the schema `topics`. PostgreSQL cannot read them, so each start of a server stores them."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

COLUMNS = """
    max_topics, max_total_bytes, records, record_bytes, meta_bytes, meta_keys, tag_bytes, node_bytes, diff_limit, diff_bytes,
    is_strict, max_cursors"""
SAVE = f"""
UPDATE door_limits SET ({COLUMNS}) = (SELECT wanted.*)
  FROM (SELECT {", ".join(["%s::bigint"] * 10)}, %s::boolean, %s::bigint) wanted
 WHERE ROW ({COLUMNS}) IS DISTINCT FROM ROW (wanted.*)
"""


def save() -> None:
    """Stores the settings of this process. If they are stored already, the function writes nothing."""
    limits = (
        settings.TOPICS_MAX_TOPICS,
        settings.TOPICS_MAX_TOTAL_BYTES,
        settings.TOPICS_MAX_RECORDS_PER_APPEND,
        settings.TOPICS_MAX_RECORD_BYTES,
        settings.TOPICS_MAX_META_BYTES,
        settings.TOPICS_MAX_META_KEYS,
        settings.TOPICS_MAX_TAG_BYTES,
        settings.TOPICS_MAX_NODE_BYTES,
        settings.TOPICS_DIFF_MAX_LIMIT,
        settings.TOPICS_DIFF_BYTES,
        settings.TOPICS_STRICT,
        settings.TOPICS_MAX_CURSORS_PER_TOPIC,
    )
    with connection.cursor() as cursor:
        cursor.execute(SAVE, limits)
