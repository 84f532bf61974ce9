"""SQL objects that changed."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    replaces=("functions/pipeline_create",),
)


class Migration(migrations.Migration):
    dependencies = [
        ("pipeline", "0002_objects"),
        ("topics", "0008_objects"),
        ("queues", "0005_schedules_by_refusal"),
        ("groups", "0001_baseline"),
        ("mirrors", "0002_told_losses"),
        ("routers", "0002_objects"),
        ("push", "0003_objects"),
    ]

    operations = OBJECTS.operations()
