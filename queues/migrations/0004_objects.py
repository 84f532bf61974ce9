"""Creates the table of schedules."""

from django.db import migrations

SCHEDULE = """
CREATE TABLE queues_schedule (
    id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id bigint  NOT NULL,
    name     text    NOT NULL COLLATE "C",
    cron     text,
    timezone text    NOT NULL,
    due_ts   bigint  NOT NULL,
    try_ts   bigint  NOT NULL,
    jobs     bigint  NOT NULL DEFAULT 0,
    last_ts  bigint,
    last_seq bigint,
    error    text,
    tag      text,
    node     text,
    meta     json,
    data     json    NOT NULL,
    UNIQUE (topic_id, name)
);
CREATE INDEX queues_schedule_by_try ON queues_schedule (try_ts);
"""


class Migration(migrations.Migration):
    dependencies = [("queues", "0003_objects"), ("topics", "0006_objects")]

    operations = [
        migrations.RunSQL(SCHEDULE, "DROP TABLE queues_schedule"),
    ]
