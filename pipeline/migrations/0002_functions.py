"""Adds the SQL functions and rights for Spark's readers (pipeline/sql/)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("pipeline", "0001_tables"), ("routers", "0005_steps")]

    operations = [
        migrations.RunSQL(read("pipeline_check"), "DROP FUNCTION pipeline_check"),
        migrations.RunSQL(read("pipeline_loss"), "DROP FUNCTION pipeline_loss"),
        # The right is not revoked backwards. Dropping the table also drops the right.
        migrations.RunSQL(read("pipeline_analyst"), migrations.RunSQL.noop),
    ]
