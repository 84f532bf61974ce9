"""All deleted topics are due at first. A process of an earlier version writes no due_ts, and reads all of them as before."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0022_keys_of_records"),
    ]

    operations = [
        migrations.AddField(
            model_name="deletedtopic",
            name="due_ts",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddIndex(
            model_name="deletedtopic",
            index=models.Index(fields=["due_ts"], name="topics_deletedtopic_due"),
        ),
    ]
