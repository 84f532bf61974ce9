"""Creates the record table with its partitions, and the functions of the hot paths. Each object has a file in topics/sql/."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"

DROP_RECORD = """
ALTER TABLE topics_topichead RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
ALTER TABLE topics_cursor RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
DROP TABLE topics_record, topics_survived;
"""

FUNCTIONS = [  # each after those it calls
    "record_json",
    "stamped_meta",
    "topic_range_bytes",
    "topic_spans",
    "topic_extent",
    "topic_first_live",
    "topic_seq_at",
    "topic_next_ts",
    "topic_stat",
    "topic_last_live",
    "topic_last_loss",
    "topic_shrink",
    "topic_trim",
    "topic_expire",
    "topic_seq_of_bytes",
    "topic_floor_for",
    "topic_evict",
    "topic_diff",
    "span_hide",
    "topic_delete_match",
    "reclaim_stored",
    "reclaim_covered",
    "reclaim_chunk",
    "topics_recover",
]

OTHERS = {  # and what undoes each
    "reclaim_long_spans": "DROP INDEX routers_span_long",
    "topic_log": "DROP VIEW topic_log",
    "topic_log_range": "DROP FUNCTION topic_log_range",
    "analyst_role": "",  # the role is the server's and stays; its grants go with the tables
}


def function(name: str) -> migrations.RunSQL:
    return migrations.RunSQL((SQL / f"{name}.sql").read_text(), f"DROP FUNCTION {name}")


class Migration(migrations.Migration):
    dependencies = [("topics", "0001_tables"), ("routers", "0001_tables")]

    operations = [
        migrations.RunSQL((SQL / "record.sql").read_text(), DROP_RECORD),
        *[function(name) for name in FUNCTIONS],
        *[migrations.RunSQL((SQL / f"{name}.sql").read_text(), undo) for name, undo in OTHERS.items()],
    ]
