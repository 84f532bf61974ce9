"""Forwarding advances the heads of dests like appends do, so no seq is given out twice (topics/sql/topic_reserve.sql)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


def anew(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(read(name), migrations.RunSQL.noop)


def version_2(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(read(f"{name}.2"), read(name))


class Migration(migrations.Migration):
    dependencies = [("routers", "0002_forwarding"), ("topics", "0004_reserved_seqs")]

    operations = [
        *[anew(name) for name in ("router_due", "router_runs", "router_moved")],
        *[version_2(name) for name in ("router_lose", "router_forward", "routers_advance")],
    ]
