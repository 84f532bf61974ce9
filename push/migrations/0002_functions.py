"""Functions that fill a queue in the order of publishing, and deliver from a queue under a lease."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def added(name: str) -> migrations.RunSQL:
    return migrations.RunSQL((SQL / f"{name}.sql").read_text(), f"DROP FUNCTION {name}")


class Migration(migrations.Migration):
    dependencies = [("push", "0001_tables"), ("routers", "0006_ordered"), ("topics", "0011_subscription_cursors")]

    operations = [  # sorted: a function comes after the functions that it calls
        added("push_fill"),
        added("push_event"),
        added("push_take"),
        added("push_settle"),
        migrations.RunSQL((SQL / "push_queues.sql").read_text(), "DROP VIEW push_queues"),
    ]
