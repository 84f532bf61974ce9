"""Lets a head remember changes of a captured table that could not be captured, below its floor (topics/sql/functions/topic_loss_reason.sql)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0012_expiry"),
    ]

    operations = [
        migrations.AddField("topichead", "capture_lost_seq", models.BigIntegerField(default=0, db_default=0)),
    ]
