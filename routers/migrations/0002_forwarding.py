"""The functions that forward. Each file in routers/sql/ contains one object."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"
FUNCTIONS = [  # sorted: a function comes after the functions that it calls
    "router_due",
    "router_lose",
    "router_runs",
    "router_forward",
    "router_moved",
    "routers_advance",
]


def function(name: str) -> migrations.RunSQL:
    return migrations.RunSQL((SQL / f"{name}.sql").read_text(), f"DROP FUNCTION {name}")


class Migration(migrations.Migration):
    dependencies = [("routers", "0001_tables"), ("topics", "0002_store")]

    operations = [function(name) for name in FUNCTIONS]
