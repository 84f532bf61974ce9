"""The records that webhooks gave up, and the records of a call whose range has others, too."""

from django.db import migrations

FAILED = """
CREATE TABLE push_webhookfailed (
    webhook_id bigint   NOT NULL REFERENCES push_webhook ON DELETE CASCADE,
    topic_id   bigint   NOT NULL,
    seq        bigint   NOT NULL,
    ts         bigint   NOT NULL,
    PRIMARY KEY (webhook_id, topic_id, seq)
);
CREATE INDEX push_webhookfailed_ts ON push_webhookfailed (ts);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("push", "0004_webhooks"),
    ]

    operations = [
        migrations.RunSQL(FAILED, "DROP TABLE push_webhookfailed"),
        migrations.RunSQL(
            "ALTER TABLE push_webhooklog ADD COLUMN seqs bigint[]", "ALTER TABLE push_webhooklog DROP COLUMN seqs"
        ),
    ]
