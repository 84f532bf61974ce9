"""Webhooks have cursors."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0013_capture_losses"),
    ]

    operations = [
        migrations.AlterField(
            model_name="cursor",
            name="kind",
            field=models.CharField(
                choices=[
                    ("named", "Named"),
                    ("router", "Router"),
                    ("subscription", "Subscription"),
                    ("pipeline", "Pipeline"),
                    ("webhook", "Webhook"),
                ],
                max_length=12,
            ),
        ),
    ]
