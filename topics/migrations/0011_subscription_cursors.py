"""Deliveries of the push bus have cursors, too. The database stores kinds as text, so nothing changes there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("topics", "0010_outdated")]

    operations = [
        migrations.AlterField(
            model_name="cursor",
            name="kind",
            field=models.CharField(
                choices=[("named", "Named"), ("router", "Router"), ("subscription", "Subscription")], max_length=12
            ),
        ),
    ]
