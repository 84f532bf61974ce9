"""SQL objects that changed."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    replaces=("functions/push_fill",),
)


class Migration(migrations.Migration):
    dependencies = [
        ("push", "0002_objects"),
        ("topics", "0008_objects"),
        ("queues", "0005_schedules_by_refusal"),
        ("groups", "0001_baseline"),
        ("mirrors", "0002_told_losses"),
        ("routers", "0002_objects"),
    ]

    operations = OBJECTS.operations()
