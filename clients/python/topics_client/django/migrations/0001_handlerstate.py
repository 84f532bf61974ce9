from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = [
        migrations.CreateModel(
            name="HandlerState",
            fields=[
                ("name", models.CharField(max_length=511, primary_key=True, serialize=False)),
                ("seen_at", models.DateTimeField(null=True)),
                ("failed_at", models.DateTimeField(null=True)),
                ("error", models.TextField(default="")),
            ],
            options={"verbose_name": "handler", "default_permissions": ("view",)},
        ),
    ]
