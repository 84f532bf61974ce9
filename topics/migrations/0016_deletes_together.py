"""Record deletes that arrive together share a transaction: below a seq, and by tag where a topic has only records of its own."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def added(name: str) -> migrations.RunSQL:
    return migrations.RunSQL((SQL / f"{name}.sql").read_text(), f"DROP FUNCTION {name}")


class Migration(migrations.Migration):
    dependencies = [("topics", "0015_expired_last")]

    operations = [added("topic_delete_below"), added("topic_mark_tagged"), added("topic_delete_marked")]
