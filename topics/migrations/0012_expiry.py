"""When each topic with a TTL has to expire records, and an index on the windows of idempotency keys.

Expiry looks once at each topic with a TTL that exists.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0011_settled"),
    ]

    operations = [
        migrations.CreateModel(
            name="Expiry",
            fields=[
                ("topic_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("due_ts", models.BigIntegerField()),
            ],
            options={"indexes": [models.Index(fields=["due_ts"], name="topics_expiry_due")]},
        ),
        migrations.RunSQL(
            "INSERT INTO topics_expiry (topic_id, due_ts) SELECT id, 0 FROM topics_topic WHERE ttl_ms > 0",
            migrations.RunSQL.noop,
        ),
        migrations.AddIndex(
            "topic",
            models.Index(fields=["idempotency_window_ms"], name="topics_topic_windows"),
        ),
    ]
