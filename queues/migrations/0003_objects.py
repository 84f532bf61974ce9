"""Replaced SQL objects. Now `manage.py migrate` applies them after all migrations (store/objects.py)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("queues", "0002_lease_columns"), ("topics", "0003_key_scope_commit")]
