"""Which heads background work may be left for, and a count of all topics.

Reclaim looks once at every topic that exists, because nobody noted until now whether it left something.
"""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0010_index_of_queues"),
    ]

    operations = [
        migrations.CreateModel(
            name="Total",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("topics", models.BigIntegerField()),
                ("records", models.BigIntegerField()),
                ("bytes", models.BigIntegerField()),
            ],
        ),
        migrations.AddField("topichead", "counted_seq", models.BigIntegerField(default=-1, db_default=-1)),
        migrations.AddField("topichead", "counted_count", models.BigIntegerField(default=0, db_default=0)),
        migrations.AddField("topichead", "counted_bytes", models.BigIntegerField(default=0, db_default=0)),
        migrations.AddField("topichead", "reclaimed_seq", models.BigIntegerField(default=-1, db_default=-1)),
        migrations.AlterField("topichead", "reclaimed_seq", models.BigIntegerField(default=0, db_default=0)),
        migrations.AddField(
            "topichead",
            "unsettled",
            models.BooleanField(default=True, db_default=True),
        ),
        migrations.AddIndex(
            "topichead",
            models.Index(fields=["topic"], name="topics_head_unsettled", condition=Q(unsettled=True)),
        ),
    ]
