"""A tombstone has the first seq of a loss by a crash of PostgreSQL (`lost_from`)."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


# PostgreSQL cannot change the result columns of a function, so the migration drops it first.
DROP_DIFF = "DROP FUNCTION topic_diff;\n"
# The first version says CREATE FUNCTION, for a database without the function.
SKIP_BEFORE = read("topics_skip_reserved").replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
GRANT = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'topics_analyst') THEN
        GRANT SELECT ON topics_crashloss TO topics_analyst;
    END IF;
END
$$
"""


class Migration(migrations.Migration):
    dependencies = [("topics", "0020_numbering_goes_on")]

    operations = [
        migrations.CreateModel(
            name="CrashLoss",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id", "last_seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("topic_id", models.BigIntegerField()),
                ("last_seq", models.BigIntegerField()),
                ("first_seq", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(GRANT, migrations.RunSQL.noop),
        migrations.RunSQL(read("topic_reserve.3"), read("topic_reserve.2")),
        migrations.RunSQL(read("topics_skip_reserved.2"), SKIP_BEFORE),
        migrations.RunSQL(read("topic_lost_from"), "DROP FUNCTION topic_lost_from"),
        migrations.RunSQL(DROP_DIFF + read("topic_diff.5"), DROP_DIFF + read("topic_diff.4")),
    ]
