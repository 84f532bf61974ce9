"""SQL objects that changed after v0.3.0."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    replaces=(
        "functions/push_queued",
        "functions/push_batch",
    ),
)


class Migration(migrations.Migration):
    dependencies = [
        ("push", "0001_baseline"),
        ("topics", "0003_key_scope_commit"),
        ("queues", "0001_tables"),
        ("groups", "0001_baseline"),
        ("routers", "0001_baseline"),
    ]

    operations = OBJECTS.operations()
