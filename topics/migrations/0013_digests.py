"""Idempotency keys know what was appended under them. Those that are there do not, and are believed until they are over their window."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("topics", "0012_pipeline_cursors")]

    operations = [
        migrations.AddField(
            model_name="idempotencykey",
            name="digest",
            field=models.BinaryField(max_length=16, null=True),
        ),
    ]
