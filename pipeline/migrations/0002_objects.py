"""Replaced SQL objects. Now `manage.py migrate` applies them after all migrations (store/objects.py)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("pipeline", "0001_baseline"),
        ("topics", "0001_baseline"),
        ("routers", "0001_baseline"),
        ("push", "0001_baseline"),
    ]
