"""Drops the indexes that Django makes for LIKE beside each unique text column, because no statement uses them."""

from django.db import migrations

INDEXES = [
    ("console_count_name_ea72e9e3_like", "console_count", "name"),
    ("console_layout_key_7964cd2d_like", "console_layout", "key"),
    ("console_process_id_1a9a0e1b_like", "console_process", "id"),
    ("console_task_name_40fa919d_like", "console_task", "name"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0003_samples_of_webhooks"),
    ]

    operations = [
        migrations.RunSQL(
            f"DROP INDEX IF EXISTS {index}", f"CREATE INDEX {index} ON {table} ({column} varchar_pattern_ops)"
        )
        for index, table, column in INDEXES
    ]
