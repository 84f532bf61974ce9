"""Creates the tables of the jobs."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline"), ("routers", "0001_baseline")]

    operations = [
        migrations.CreateModel(
            name="Delay",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("topic_id", models.BigIntegerField()),
                ("router", models.TextField(db_collation="C")),
                ("minute_ts", models.BigIntegerField()),
                ("bucket", models.IntegerField()),
                ("records", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("router", "topic_id", "minute_ts", "bucket"), name="pipeline_delay_key"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Reading",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("topic_id", models.BigIntegerField()),
                ("name", models.CharField(db_collation="C", max_length=255)),
                ("target", models.TextField()),
                ("upto_seq", models.BigIntegerField(null=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("topic_id", "name"), name="pipeline_reading_of_topic")],
            },
        ),
        migrations.CreateModel(
            name="Rollup",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("topic_id", models.BigIntegerField()),
                ("minute_ts", models.BigIntegerField()),
                ("node", models.TextField(db_collation="C")),
                ("tag_prefix", models.TextField(db_collation="C")),
                ("records", models.BigIntegerField()),
                ("bytes", models.BigIntegerField()),
                ("first_seq", models.BigIntegerField()),
                ("last_seq", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("topic_id", "minute_ts", "node", "tag_prefix"), name="pipeline_rollup_key"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "job",
                    models.CharField(
                        choices=[
                            ("archive", "Archive"),
                            ("verify", "Verify"),
                            ("restore", "Restore"),
                            ("rollup", "Rollup"),
                            ("audit", "Audit"),
                            ("latest", "Latest"),
                        ],
                        max_length=8,
                    ),
                ),
                ("options", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("done", "Done"),
                            ("wrong", "found something wrong"),
                            ("failed", "Failed"),
                        ],
                        default="running",
                        max_length=8,
                    ),
                ),
                ("started_ts", models.BigIntegerField()),
                ("finished_ts", models.BigIntegerField(null=True)),
                ("read", models.BigIntegerField(default=0)),
                ("written", models.BigIntegerField(default=0)),
                ("summary", models.TextField(blank=True, default="")),
                ("report", models.JSONField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["-started_ts"], name="pipeline_run_by_start")],
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "job",
                    models.CharField(
                        choices=[
                            ("archive", "Archive"),
                            ("verify", "Verify"),
                            ("restore", "Restore"),
                            ("rollup", "Rollup"),
                            ("audit", "Audit"),
                            ("latest", "Latest"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "options",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text='As on the command line: {"topic": "orders", "out": "/archive"}',
                    ),
                ),
                ("every_minutes", models.PositiveIntegerField(default=60)),
                ("enabled", models.BooleanField(default=True)),
                ("next_ts", models.BigIntegerField(default=0, editable=False)),
                (
                    "last_run",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to="pipeline.run",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Staged",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("reading_id", models.BigIntegerField()),
                ("router", models.TextField(null=True)),
                ("minute_ts", models.BigIntegerField()),
                ("node", models.TextField(null=True)),
                ("tag_prefix", models.TextField(null=True)),
                ("bucket", models.IntegerField(null=True)),
                ("records", models.BigIntegerField()),
                ("bytes", models.BigIntegerField(null=True)),
                ("first_seq", models.BigIntegerField(null=True)),
                ("last_seq", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["reading_id"], name="pipeline_staged_by_reading")],
            },
        ),
        migrations.CreateModel(
            name="Written",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("topic_id", models.BigIntegerField()),
                ("writer", models.CharField(db_collation="C", max_length=255)),
                ("partition", models.IntegerField()),
                ("batch", models.BigIntegerField()),
                ("records", models.BigIntegerField()),
                ("ts", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("topic_id", "writer", "partition"), name="pipeline_written_by_partition"
                    )
                ],
            },
        ),
    ]
