"""Creates the tables of the push bus."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline"), ("routers", "0001_baseline")]

    operations = [
        migrations.CreateModel(
            name="BusClient",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(db_collation="C", max_length=64)),
                ("token", models.CharField(blank=True, db_collation="C", max_length=128, null=True, unique=True)),
                ("created_ts", models.BigIntegerField()),
                ("deleted_ts", models.BigIntegerField(blank=True, null=True)),
                ("token_sha256", models.BinaryField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Subscriber",
            fields=[
                (
                    "client",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="subscriber",
                        serialize=False,
                        to="push.busclient",
                    ),
                ),
                ("queue", models.CharField(db_collation="C", max_length=255, unique=True)),
                ("callback", models.TextField()),
                ("uuid", models.TextField(blank=True, null=True)),
                ("timeout_ms", models.IntegerField(default=500)),
                ("max_events", models.IntegerField(default=100)),
                ("paused", models.BooleanField(default=False)),
                ("unsubscribed_ts", models.BigIntegerField(blank=True, null=True)),
                ("created_ts", models.BigIntegerField()),
                ("health", models.IntegerField(default=100)),
                ("retry_ts", models.BigIntegerField(default=0)),
                ("last_error", models.TextField(blank=True, null=True)),
                ("last_delivery_ts", models.BigIntegerField(blank=True, null=True)),
                ("sent_total", models.BigIntegerField(default=0)),
                ("dropped_total", models.BigIntegerField(default=0)),
                ("dropped", models.BigIntegerField(default=0)),
                ("lease", models.BigIntegerField(default=0)),
                ("leased_until_ts", models.BigIntegerField(default=0)),
                ("batch_id", models.CharField(blank=True, max_length=36, null=True)),
                ("batch_first_seq", models.BigIntegerField(blank=True, null=True)),
                ("batch_last_seq", models.BigIntegerField(blank=True, null=True)),
                ("batch_attempts", models.IntegerField(default=0)),
                ("batch_ts", models.BigIntegerField(default=0)),
                ("unreadable_total", models.BigIntegerField(db_default=0, default=0)),
                ("passed_total", models.BigIntegerField(db_default=0, default=0)),
            ],
        ),
        migrations.CreateModel(
            name="BusTopic",
            fields=[
                ("name", models.CharField(db_collation="C", max_length=32, primary_key=True, serialize=False)),
                ("created_ts", models.BigIntegerField()),
                (
                    "publisher",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="topics",
                        to="push.busclient",
                    ),
                ),
            ],
            options={
                "verbose_name": "bus topic",
            },
        ),
        migrations.CreateModel(
            name="Counter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(db_collation="C", max_length=64)),
                ("tags", models.CharField(db_collation="C", max_length=255)),
                ("total", models.FloatField()),
                ("reported", models.FloatField(default=0)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("name", "tags"), name="push_counter_name")],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("ts", models.BigIntegerField()),
                ("batch_id", models.CharField(max_length=36)),
                ("attempt", models.IntegerField()),
                ("status", models.IntegerField(null=True)),
                ("error", models.TextField(null=True)),
                ("duration_ms", models.FloatField()),
                ("events", models.IntegerField()),
                ("bytes", models.IntegerField()),
                (
                    "subscriber",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="push.subscriber",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "indexes": [
                    models.Index(fields=["subscriber", "id"], name="push_delivery_of_subscriber"),
                    models.Index(fields=["ts"], name="push_delivery_by_age"),
                ],
            },
        ),
    ]
