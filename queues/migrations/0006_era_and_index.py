"""An index by deadline that no statement uses which names jobs, and eras of queues (sql/tables/)."""

from django.db import migrations

CREATE = "DROP INDEX queues_lease_by_deadline; CREATE INDEX queues_lease_by_deadline ON queues_lease ({})"


class Migration(migrations.Migration):
    dependencies = [("queues", "0005_schedules_by_refusal"), ("topics", "0008_objects")]

    operations = [
        migrations.RunSQL(
            CREATE.format("(topic_id + 0), deadline, (seq + 0)"), CREATE.format("topic_id, deadline, seq")
        ),
        migrations.RunSQL(
            "ALTER TABLE queues_queue ADD COLUMN era bigint NOT NULL DEFAULT 0, DROP CONSTRAINT queues_queue_pkey,"
            " ADD PRIMARY KEY (topic_id, era, durable)",
            "ALTER TABLE queues_queue DROP CONSTRAINT queues_queue_pkey, DROP COLUMN era, ADD PRIMARY KEY (topic_id, durable)",
        ),
    ]
