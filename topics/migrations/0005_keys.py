"""Keys expire, and have two secrets during a rotation."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("topics", "0004_reserved_seqs")]

    operations = [
        migrations.AddField("apikey", "expires_ts", models.BigIntegerField(blank=True, null=True)),
        migrations.AddField(
            "apikey", "previous_sha256", models.BinaryField(editable=False, max_length=32, null=True, unique=True)
        ),
        migrations.AddField("apikey", "previous_until_ts", models.BigIntegerField(editable=False, null=True)),
    ]
