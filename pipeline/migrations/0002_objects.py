"""SQL objects that changed after v0.2.0."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    replaces=("roles/topics_writer",),
)


class Migration(migrations.Migration):
    dependencies = [
        ("pipeline", "0001_baseline"),
        ("topics", "0001_baseline"),
        ("routers", "0001_baseline"),
        ("push", "0001_baseline"),
    ]

    operations = OBJECTS.operations()
