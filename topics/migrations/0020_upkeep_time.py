from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0019_no_like_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="UpkeepTime",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("ts", models.BigIntegerField()),
            ],
        ),
    ]
