"""A read at the head does not search for records."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("topics", "0013_digests")]

    operations = [migrations.RunSQL(read("topic_diff.3"), read("topic_diff.2"))]
