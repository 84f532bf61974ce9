"""The table has a row for each writer and partition of a topic, so this takes milliseconds to seconds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pipeline", "0003_objects"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="written",
            index=models.Index(
                condition=models.Q(("writer__startswith", "once:")), fields=["id"], name="pipeline_written_once"
            ),
        ),
    ]
