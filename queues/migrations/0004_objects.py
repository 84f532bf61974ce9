"""SQL objects that changed."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    creates=("tables/queues_schedule",),
)


class Migration(migrations.Migration):
    dependencies = [("queues", "0003_objects"), ("topics", "0006_objects")]

    operations = OBJECTS.operations()
