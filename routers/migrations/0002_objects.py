"""SQL objects that changed."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    replaces=(
        "functions/router_lose",
        "functions/router_forward",
        "functions/routers_advance",
    ),
)


class Migration(migrations.Migration):
    dependencies = [
        ("routers", "0001_baseline"),
        ("topics", "0008_objects"),
        ("queues", "0005_schedules_by_refusal"),
        ("groups", "0001_baseline"),
        ("mirrors", "0002_told_losses"),
    ]

    operations = OBJECTS.operations()
