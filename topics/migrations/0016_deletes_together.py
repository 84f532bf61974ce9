"""Simultaneous deletes of records share a transaction: deletes below a seq, and deletes by tag in topics without forwarded
records."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def added(name: str) -> migrations.RunSQL:
    return migrations.RunSQL((SQL / f"{name}.sql").read_text(), f"DROP FUNCTION {name}")


class Migration(migrations.Migration):
    dependencies = [("topics", "0015_expired_last")]

    operations = [added("topic_delete_below"), added("topic_mark_tagged"), added("topic_delete_marked")]
