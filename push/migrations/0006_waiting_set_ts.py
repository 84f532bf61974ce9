"""When the time of a record's next attempt was set, so that a clock that was ahead delays no attempt."""

from django.db import migrations

SET_TS = """
ALTER TABLE push_webhookwaiting ADD COLUMN set_ts bigint NOT NULL DEFAULT 0;
CREATE INDEX push_webhookwaiting_set ON push_webhookwaiting (set_ts);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("push", "0005_failed_records"),
    ]

    operations = [
        migrations.RunSQL(SET_TS, "ALTER TABLE push_webhookwaiting DROP COLUMN set_ts"),
    ]
