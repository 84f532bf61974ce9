"""Replaced SQL objects. Now `manage.py migrate` applies them after all migrations (store/objects.py)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("topics", "0008_objects")]
