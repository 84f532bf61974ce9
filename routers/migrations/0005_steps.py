"""Splits the forwarding of one router into steps that can be read and tested separately."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


def added(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(read(name), f"DROP FUNCTION {name}")


class Migration(migrations.Migration):
    dependencies = [("routers", "0004_facts"), ("topics", "0009_forwarded")]

    operations = [
        added("router_unheld"),
        added("router_unsent"),
        added("router_fitting"),
        added("router_joined"),
        # Backwards this restores the former function, which had no setting of its own. OR REPLACE also removes the setting.
        migrations.RunSQL(read("router_forward.3"), read("router_forward.2")),
    ]
