"""Stores the SHA-256 of a deleted token, so that its client can be restored."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("push", "0003_clocks")]

    operations = [
        migrations.AddField(
            model_name="busclient",
            name="token_sha256",
            field=models.BinaryField(blank=True, null=True),
        ),
    ]
