"""The log's SQL no longer reads routers. The heads have the facts about routers, since routers 0004."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("topics", "0007_span"), ("routers", "0004_facts")]

    operations = [
        migrations.RunSQL(read("reclaim_chunk.2"), read("reclaim_chunk")),
        migrations.RunSQL(read("analyst_role.2"), read("analyst_role")),
    ]
