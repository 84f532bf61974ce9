"""Creates watch sessions, and the number of streams of each process."""

from django.db import migrations, models

STORAGE = """
ALTER TABLE topics_watchsession SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE topics_streamcount SET UNLOGGED;
"""
STORAGE_BACK = """
ALTER TABLE topics_streamcount SET LOGGED;
ALTER TABLE topics_watchsession RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
"""


class Migration(migrations.Migration):
    dependencies = [("topics", "0002_store")]

    operations = [
        migrations.CreateModel(
            name="WatchSession",
            fields=[
                ("wid", models.CharField(db_collation="C", max_length=64, primary_key=True, serialize=False)),
                ("key_id", models.CharField(max_length=100)),
                ("options", models.TextField()),
                ("spots", models.TextField()),
                ("stream", models.BigIntegerField(default=0)),
                ("open", models.BooleanField(default=False)),
                ("seen_ts", models.BigIntegerField()),
                ("created_ts", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="StreamCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "process", "key_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("process", models.CharField(max_length=32)),
                ("key_id", models.CharField(max_length=100)),
                ("count", models.IntegerField()),
                ("seen_ts", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(STORAGE, STORAGE_BACK),
    ]
