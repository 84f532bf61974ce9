"""Idempotency keys get a digest of their records. Existing keys have none, and match any records until their window ends."""

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
