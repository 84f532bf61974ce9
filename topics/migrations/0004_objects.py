"""SQL objects that changed after v0.3.0."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    replaces=("functions/topic_append_judged",),
)


class Migration(migrations.Migration):
    dependencies = [("topics", "0003_key_scope_commit")]

    operations = OBJECTS.operations()
