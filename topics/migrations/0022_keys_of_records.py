"""PostgreSQL lengthens the column in its catalog, so this writes no row and builds no index."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0021_numbers"),
    ]

    operations = [
        migrations.AlterField(
            model_name="idempotencykey",
            name="key",
            field=models.CharField(db_collation="C", max_length=264),
        ),
    ]
