"""No seq is used twice, also after a crash (sql/topic_reserve.sql). A clock that was ahead keeps no record alive.

Also installs the latest version of every function of the store: a database from the time when these files were still being
written can have older bodies.
"""

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

SQL = Path(__file__).parent.parent / "sql"
# Before this migration, volatile records lie at or below ragged_seq. Nothing more is known about their place.
FILL_VOLATILE = "UPDATE topics_topichead SET volatile_seq = ragged_seq WHERE ragged_seq > 0"

UNCHANGED = [  # each after those it calls
    "record_json",
    "stamped_meta",
    "topic_range_bytes",
    "topic_spans",
    "topic_extent",
    "topic_first_live",
    "topic_next_ts",
    "topic_stat",
    "topic_last_live",
    "topic_last_loss",
    "topic_shrink",
    "topic_trim",
    "topic_expire",
    "topic_seq_of_bytes",
    "topic_floor_for",
    "topic_evict",
    "topic_diff",
    "span_hide",
    "topic_delete_match",
    "reclaim_stored",
    "reclaim_covered",
    "reclaim_chunk",
    "topic_log_range",
]


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


def anew(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(read(name), migrations.RunSQL.noop)


def added(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(read(name), f"DROP FUNCTION {name}")


def version_2(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(read(f"{name}.2"), read(name))


class Migration(migrations.Migration):
    dependencies = [("topics", "0003_watch")]

    operations = [
        migrations.AddField("TopicHead", "reserved_seq", models.BigIntegerField(default=0, db_default=0)),
        migrations.AddField("TopicHead", "volatile_seq", models.BigIntegerField(default=0, db_default=0)),
        migrations.RunSQL(FILL_VOLATILE, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="ClockStep",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="topics.topic",
                    ),
                ),
                ("upto_seq", models.BigIntegerField()),
                ("ts", models.BigIntegerField()),
                ("until_ts", models.BigIntegerField()),
            ],
        ),
        *[anew(name) for name in UNCHANGED],
        added("topic_reserve"),
        added("topics_skip_reserved"),
        version_2("topics_recover"),
        version_2("topic_seq_at"),
    ]
