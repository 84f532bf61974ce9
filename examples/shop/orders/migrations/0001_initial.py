from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = [
        migrations.CreateModel(
            name="Day",
            fields=[
                ("day", models.DateField(primary_key=True, serialize=False)),
                ("orders", models.IntegerField(default=0)),
                ("cents", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("mail", models.EmailField(max_length=254)),
                ("cents", models.PositiveIntegerField()),
                ("placed_on", models.DateField(auto_now_add=True)),
                ("is_confirmed", models.BooleanField(default=False)),
            ],
        ),
    ]
