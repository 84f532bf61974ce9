"""An index of the records that webhooks gave up, which are few."""

from django.db import migrations

INDEX = "CREATE INDEX push_webhookfailed_by_webhook ON push_webhookfailed (webhook_id, ts)"


class Migration(migrations.Migration):
    dependencies = [
        ("push", "0009_no_like_indexes"),
    ]

    operations = [
        migrations.RunSQL(INDEX, "DROP INDEX push_webhookfailed_by_webhook"),
    ]
