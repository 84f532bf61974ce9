"""pipeline_loss also returns 'recreated' for a reader below the last head of a topic's predecessors."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("pipeline", "0002_functions"), ("topics", "0020_numbering_goes_on")]

    operations = [migrations.RunSQL(read("pipeline_loss.2"), read("pipeline_loss"))]
