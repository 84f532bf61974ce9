"""Drops the indexes that Django makes for LIKE beside each unique text column.

The collation of these columns is "C", so their unique indexes serve LIKE, too.
"""

from django.db import migrations

INDEXES = [
    ("routers_router_name_5aaa9ccd_like", "routers_router", "name"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("routers", "0002_objects"),
    ]

    operations = [
        migrations.RunSQL(
            f"DROP INDEX IF EXISTS {index}", f"CREATE INDEX {index} ON {table} ({column} varchar_pattern_ops)"
        )
        for index, table, column in INDEXES
    ]
