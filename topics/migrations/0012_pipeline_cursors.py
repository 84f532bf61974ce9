"""Jobs of the pipeline have cursors, too. The database stores kinds as text, so nothing changes there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("topics", "0011_subscription_cursors")]

    operations = [
        migrations.AlterField(
            model_name="cursor",
            name="kind",
            field=models.CharField(
                choices=[
                    ("named", "Named"),
                    ("router", "Router"),
                    ("subscription", "Subscription"),
                    ("pipeline", "Pipeline"),
                ],
                max_length=12,
            ),
        ),
    ]
