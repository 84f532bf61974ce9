"""Adds the signals: the problems of the instance as rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0001_tables"),
    ]

    operations = [
        migrations.CreateModel(
            name="Judgement",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("place", models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name="Signal",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(db_collation="C", max_length=40)),
                ("object", models.TextField(db_collation="C")),
                ("level", models.CharField(choices=[("bad", "Bad"), ("warn", "Warn")], max_length=4)),
                ("text", models.TextField()),
                ("advice", models.TextField()),
                ("url", models.TextField()),
                ("act", models.TextField()),
                ("because", models.JSONField(default=list)),
                ("since_ts", models.BigIntegerField()),
                ("opened_ts", models.BigIntegerField()),
                ("absent_ts", models.BigIntegerField(null=True)),
                ("closed_ts", models.BigIntegerField(null=True)),
                ("times", models.IntegerField(default=1)),
                ("reason", models.TextField(default="")),
                ("silenced_by", models.TextField(default="")),
                ("silenced_until_ts", models.BigIntegerField(null=True)),
            ],
            options={
                "permissions": [("silence_signal", "May silence a signal")],
                "indexes": [
                    models.Index(fields=["kind", "object", "id"], name="console_signal_of_object"),
                    models.Index(fields=["closed_ts"], name="console_signal_by_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closed_ts", None)), fields=("kind", "object"), name="console_signal_open"
                    )
                ],
            },
        ),
    ]
