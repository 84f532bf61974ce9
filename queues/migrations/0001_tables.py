"""Creates the tables and SQL objects of the queues."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    creates=(
        "tables/queues_lease",
        "tables/queues_moved",
        "tables/queues_queue",
        "functions/job_json",
        "functions/queue_held",
        "functions/queue_now",
        "functions/queue_counts",
        "functions/queue_lock",
        "functions/queue_save",
        "functions/queue_ack",
        "functions/queue_claim",
        "functions/queue_drop",
        "functions/queue_extend",
        "functions/queue_forget",
        "functions/queue_nack",
        "functions/queue_spent",
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline")]

    operations = OBJECTS.operations()
