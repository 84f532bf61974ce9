"""The function span_record defines how a span shows a record. Reads of spans get functions of their own, apart from plain
reads."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


def added(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(read(name), f"DROP FUNCTION {name}")


def version_2(name: str) -> migrations.RunSQL:
    # The first version of the view says CREATE VIEW. The view exists in both directions of this migration.
    return migrations.RunSQL(read(f"{name}.2"), read(name).replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))


class Migration(migrations.Migration):
    dependencies = [("topics", "0008_facts")]

    operations = [  # each after those it calls
        added("span_record"),
        version_2("topic_spans"),
        added("topic_forwarded"),
        added("topic_as_expired"),
        added("topic_diff_ragged"),
        version_2("topic_diff"),
        version_2("topic_log"),
        version_2("topic_log_range"),
    ]
