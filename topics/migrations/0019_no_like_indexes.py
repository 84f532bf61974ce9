"""Drops the indexes that Django makes for LIKE beside each unique text column.

The collation of these columns is "C", so their unique indexes serve LIKE, too.
"""

from django.db import migrations

INDEXES = [
    ("topics_topic_name_6bb046c1_like", "topics_topic", "name"),
    ("topics_lasthead_name_531f3780_like", "topics_lasthead", "name"),
    ("topics_watchsession_wid_a14954e2_like", "topics_watchsession", "wid"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0018_valid_keys"),
    ]

    operations = [
        migrations.RunSQL(
            f"DROP INDEX IF EXISTS {index}", f"CREATE INDEX {index} ON {table} ({column} varchar_pattern_ops)"
        )
        for index, table, column in INDEXES
    ]
