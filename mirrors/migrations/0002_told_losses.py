"""Adds the last losses of a site, and the places of their tombstones in the topic."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("mirrors", "0001_baseline")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE mirrors_site ADD COLUMN losses jsonb NOT NULL DEFAULT '[]'",
            "ALTER TABLE mirrors_site DROP COLUMN losses",
        )
    ]
