"""Allows topics with subscribers and without a publisher."""

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
        # An earlier version cannot read a row without a publisher. The topic's first event creates the row again.
        migrations.RunSQL(migrations.RunSQL.noop, "DELETE FROM push_bustopic WHERE publisher_id IS NULL"),
    ]
