"""PostgreSQL keeps the default of the column in its catalog, so this writes no row, also in a table of many topics."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0020_upkeep_time"),
    ]

    operations = [
        migrations.AddField(
            model_name="topic",
            name="numbers",
            field=models.CharField(
                choices=[("any", "Any"), ("double", "Double")], db_default="any", default="any", max_length=8
            ),
        ),
    ]
