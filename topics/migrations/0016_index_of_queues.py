"""A process of an earlier version works with either index. The table has a row for each topic, so this takes milliseconds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0015_key_scope_webhooks"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="topic", name="topics_topic_queues"),
        migrations.AddIndex(
            model_name="topic",
            index=models.Index(
                condition=models.Q(("type", "queue")),
                fields=["name"],
                include=("id", "dead_letter"),
                name="topics_topic_queues",
            ),
        ),
    ]
