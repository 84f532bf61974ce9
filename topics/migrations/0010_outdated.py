"""A delete by tag is a whole transaction in one statement: it rolls back if the topic's version differs (topic_outdated)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("topics", "0009_forwarded")]

    operations = [
        migrations.RunSQL(read("topic_outdated"), "DROP FUNCTION topic_outdated"),
        migrations.RunSQL(read("topic_delete_match.2"), read("topic_delete_match")),
    ]
