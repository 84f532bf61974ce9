"""Groups know the key that created them, and for how long they had no members and no commits."""

from django.db import migrations

ADD = """
ALTER TABLE groups_group
    ADD COLUMN key_id text NOT NULL DEFAULT '',
    ADD COLUMN idle_hours integer NOT NULL DEFAULT 0,
    ADD COLUMN counted_ts bigint NOT NULL DEFAULT 0
"""
DROP = "ALTER TABLE groups_group DROP COLUMN key_id, DROP COLUMN idle_hours, DROP COLUMN counted_ts"


class Migration(migrations.Migration):
    dependencies = [("groups", "0001_baseline")]

    operations = [migrations.RunSQL(ADD, DROP)]
