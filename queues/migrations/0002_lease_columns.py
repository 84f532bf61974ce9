"""Adds the time of the last claim and the last error of a job to its lease."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("queues", "0001_tables")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE queues_lease ADD COLUMN claimed_ts bigint, ADD COLUMN error text",
            "ALTER TABLE queues_lease DROP COLUMN error, DROP COLUMN claimed_ts",
        )
    ]
