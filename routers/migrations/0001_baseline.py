"""Creates the tables of the routers."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("topics", "0001_baseline"),
    ]

    operations = [
        migrations.CreateModel(
            name="Router",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(db_collation="C", max_length=255, unique=True)),
                ("preserve_node", models.BooleanField(default=True)),
                ("preserve_tag", models.BooleanField(default=True)),
                ("filter_op", models.CharField(blank=True, max_length=4, null=True)),
                ("filter_tag", models.TextField(blank=True, db_collation="C", null=True)),
                ("allow_cycle", models.BooleanField(default=False)),
                ("allow_fan_in", models.BooleanField(default=False)),
                ("cyclic", models.BooleanField(default=False)),
                (
                    "guarantee",
                    models.CharField(
                        choices=[("at_least_once", "At Least Once"), ("exactly_once", "Exactly Once")],
                        default="at_least_once",
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("running", "Running"), ("paused", "Paused"), ("blocked", "Blocked")],
                        default="running",
                        max_length=8,
                    ),
                ),
                ("last_error", models.TextField(blank=True, null=True)),
                ("errors_total", models.BigIntegerField(default=0)),
                ("retry_ts", models.BigIntegerField(default=0)),
                ("retry_ms", models.BigIntegerField(default=0)),
                ("retry_bytes", models.BigIntegerField(blank=True, null=True)),
                ("created_ts", models.BigIntegerField()),
                (
                    "cursor",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="router", to="topics.cursor"
                    ),
                ),
                (
                    "dest",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="routers_in", to="topics.topic"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="routers_out", to="topics.topic"
                    ),
                ),
                ("ordered", models.BooleanField(db_default=False, default=False)),
            ],
        ),
    ]
