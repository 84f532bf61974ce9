"""Schedules keep their `not_before`, and queues remember the schedules whose only job has come."""

from django.db import migrations

# The first job of a schedule comes at its due_ts, so this time as not_before changes nothing.
FILL = "UPDATE queues_schedule SET not_before = due_ts WHERE cron IS NULL OR jobs = 0"
DONE = """
CREATE TABLE queues_done (
    topic_id   bigint NOT NULL,
    name       text   NOT NULL COLLATE "C",
    not_before bigint NOT NULL,
    digest     bytea  NOT NULL,
    ts         bigint NOT NULL,
    seq        bigint NOT NULL,
    PRIMARY KEY (topic_id, name)
);
CREATE INDEX queues_done_by_ts ON queues_done (ts);
"""


class Migration(migrations.Migration):
    dependencies = [("queues", "0006_era_and_index")]

    operations = [
        migrations.RunSQL(
            ["ALTER TABLE queues_schedule ADD COLUMN not_before bigint", FILL],
            "ALTER TABLE queues_schedule DROP COLUMN not_before",
        ),
        migrations.RunSQL(DONE, "DROP TABLE queues_done"),
    ]
