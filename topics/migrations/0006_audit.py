"""Creates the audit log of configuration."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("topics", "0005_keys")]

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("ts", models.BigIntegerField()),
                ("actor", models.CharField(max_length=100)),
                ("actor_name", models.CharField(blank=True, max_length=150)),
                ("origin", models.CharField(blank=True, max_length=64)),
                ("action", models.CharField(max_length=8)),
                ("kind", models.CharField(max_length=8)),
                ("name", models.CharField(db_collation="C", max_length=511)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit log",
                "indexes": [
                    models.Index(fields=["ts"], name="topics_audit_by_age"),
                    models.Index(fields=["name"], name="topics_audit_by_name"),
                ],
            },
        ),
    ]
