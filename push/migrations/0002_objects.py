"""Replaced SQL objects. Now `manage.py migrate` applies them after all migrations (store/objects.py)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("push", "0001_baseline"),
        ("topics", "0003_key_scope_commit"),
        ("queues", "0001_tables"),
        ("groups", "0001_baseline"),
        ("routers", "0001_baseline"),
    ]
