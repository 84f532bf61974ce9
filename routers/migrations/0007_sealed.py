"""A sealed dest accepts no records from routers. Its routers wait."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("routers", "0006_ordered"), ("topics", "0023_sealed")]

    operations = [
        migrations.RunSQL(read("router_due.3"), read("router_due.2")),
        migrations.RunSQL(read("router_forward.4"), read("router_forward.3")),
        migrations.RunSQL(read("routers_advance.3"), read("routers_advance.2")),
    ]
