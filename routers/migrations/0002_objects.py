"""Replaced SQL objects. Now `manage.py migrate` applies them after all migrations (store/objects.py)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("routers", "0001_baseline"),
        ("topics", "0008_objects"),
        ("queues", "0005_schedules_by_refusal"),
        ("groups", "0001_baseline"),
        ("mirrors", "0002_told_losses"),
    ]
