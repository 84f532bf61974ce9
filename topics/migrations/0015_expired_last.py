"""A delete by tag under a ttl subtracts the marked records before expiry reads the count."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("topics", "0014_tail")]

    operations = [migrations.RunSQL(read("topic_delete_match.3"), read("topic_delete_match.2"))]
