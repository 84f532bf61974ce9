"""SQL objects that changed after v0.3.0."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    creates=(
        "functions/queue_deal",
        "functions/queue_letters",
    ),
    replaces=(
        "functions/queue_counts",
        "functions/queue_claim",
        "functions/queue_nack",
        "functions/queue_spent",
    ),
)


class Migration(migrations.Migration):
    dependencies = [("queues", "0002_lease_columns"), ("topics", "0003_key_scope_commit")]

    operations = OBJECTS.operations()
