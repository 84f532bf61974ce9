"""A topic that is created again continues above the last head of its name. Its readers get a tombstone."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


# For topics that were deleted before, the last stored record gives the head.
FILL = """
INSERT INTO topics_lasthead (name, head_seq)
SELECT gone.name, max(last.seq)
  FROM topics_deletedtopic gone
 CROSS JOIN LATERAL (SELECT greatest(
       (SELECT seq FROM topics_record WHERE topic_id = gone.id ORDER BY seq DESC LIMIT 1),
       (SELECT last_seq FROM routers_span WHERE topic_id = gone.id ORDER BY last_seq DESC LIMIT 1)) AS seq) last
 WHERE last.seq IS NOT NULL
 GROUP BY gone.name
"""


class Migration(migrations.Migration):
    dependencies = [("topics", "0019_functions_that_keep_their_plans")]

    operations = [
        migrations.AddField(
            model_name="topichead",
            name="recreated_seq",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name="LastHead",
            fields=[
                (
                    "name",
                    models.CharField(db_collation="C", max_length=255, primary_key=True, serialize=False),
                ),
                ("head_seq", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.RunSQL(read("topic_last_head"), "DROP FUNCTION topic_last_head"),
        migrations.RunSQL(read("topic_diff_ragged.2"), read("topic_diff_ragged")),
        migrations.RunSQL(read("topic_diff.4"), read("topic_diff.3")),
    ]
