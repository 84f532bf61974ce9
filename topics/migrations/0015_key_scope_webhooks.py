from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0014_cursors_of_webhooks"),
    ]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="webhooks",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
