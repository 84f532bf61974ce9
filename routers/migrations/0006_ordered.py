"""The app that created a router may advance it together with the other routers into its dest."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("routers", "0005_steps")]

    operations = [
        migrations.AddField(
            model_name="router",
            name="ordered",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RunSQL((SQL / "router_due.2.sql").read_text(), (SQL / "router_due.sql").read_text()),
    ]
