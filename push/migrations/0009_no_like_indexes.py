"""Drops the indexes that Django makes for LIKE beside each unique text column.

The collation of these columns is "C", so their unique indexes serve LIKE, too.
"""

from django.db import migrations

INDEXES = [
    ("push_busclient_token_fabb25d9_like", "push_busclient", "token"),
    ("push_bustopic_name_e04f5fae_like", "push_bustopic", "name"),
    ("push_subscriber_queue_ddd58958_like", "push_subscriber", "queue"),
    ("push_webhook_name_d039359e_like", "push_webhook", "name"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("push", "0008_names_of_64"),
    ]

    operations = [
        migrations.RunSQL(
            f"DROP INDEX IF EXISTS {index}", f"CREATE INDEX {index} ON {table} ({column} varchar_pattern_ops)"
        )
        for index, table, column in INDEXES
    ]
