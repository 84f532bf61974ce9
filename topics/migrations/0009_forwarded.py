"""What a span shows of a record is said once (span_record), and reads of what lies in spans stand apart from plain ones."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


def added(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(read(name), f"DROP FUNCTION {name}")


def version_2(name: str) -> migrations.RunSQL:
    # The view's first version says CREATE VIEW; it is there, whichever way this goes.
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
