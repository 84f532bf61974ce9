"""PostgreSQL no longer extracts text from clients' data, and a record that cannot be read no longer stops its queue."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).parent.parent / "sql"


def sql(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("push", "0006_unpublished_topics")]

    operations = [
        *[
            migrations.AddField("Subscriber", name, models.BigIntegerField(default=0, db_default=0))
            for name in ("unreadable_total", "passed_total")
        ],
        # push_take and the first version of push_settle stay for workers of earlier versions.
        migrations.RunSQL(sql("push_event.2"), sql("push_event")),
        migrations.RunSQL(sql("push_queued"), "DROP FUNCTION push_queued"),
        migrations.RunSQL(sql("push_unreadable"), "DROP FUNCTION push_unreadable"),
        migrations.RunSQL(sql("push_batch"), "DROP FUNCTION push_batch"),
        migrations.RunSQL(
            sql("push_settle.2"),
            "DROP FUNCTION push_settle(bigint, bigint, text, boolean, integer, text, double precision, integer, integer, integer, "
            "bigint, integer, integer, bigint)",
        ),
    ]
