"""Adds an index on the schedules whose jobs a queue refuses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("queues", "0004_objects")]

    operations = [
        migrations.RunSQL(
            "CREATE INDEX queues_schedule_by_refusal ON queues_schedule (topic_id) WHERE error IS NOT NULL",
            "DROP INDEX queues_schedule_by_refusal",
        )
    ]
