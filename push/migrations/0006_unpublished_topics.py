"""A topic can have subscribers before it has a publisher."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("push", "0005_audited_callbacks")]

    operations = [
        migrations.AlterField(
            model_name="bustopic",
            name="publisher",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="topics", to="push.busclient"
            ),
        ),
        # An earlier version knows no topic without a publisher. Its first event makes the row again.
        migrations.RunSQL(migrations.RunSQL.noop, "DELETE FROM push_bustopic WHERE publisher_id IS NULL"),
    ]
