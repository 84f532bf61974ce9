"""Drops foreign keys of rows that the head's lock already protects. Their checks took a third of the time of making a
topic, and each append under an idempotency key wrote the topic's row."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("topics", "0016_deletes_together")]

    operations = [
        migrations.AlterField(
            model_name="topichead",
            name="topic",
            field=models.OneToOneField(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                primary_key=True,
                related_name="head",
                serialize=False,
                to="topics.topic",
            ),
        ),
        migrations.AlterField(
            model_name="idempotencykey",
            name="topic",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                to="topics.topic",
            ),
        ),
    ]
