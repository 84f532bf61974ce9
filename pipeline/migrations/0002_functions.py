"""What readers on Spark ask of the database (pipeline/sql/)."""

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
        # Taking the right back is left to whoever drops the table.
        migrations.RunSQL(read("pipeline_analyst"), migrations.RunSQL.noop),
    ]
