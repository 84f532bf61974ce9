"""Topics can be sealed: a sealed topic takes no records and no deletes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("topics", "0022_clocks_that_were_behind")]

    operations = [
        migrations.AddField(
            model_name="topic",
            name="sealed",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
