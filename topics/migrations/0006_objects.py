"""SQL objects that changed."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    replaces=("functions/topic_append_judged",),
)


class Migration(migrations.Migration):
    dependencies = [("topics", "0005_unique_tags")]

    operations = OBJECTS.operations()
