"""SQL objects that changed."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    replaces=(
        "functions/topic_mark_tagged",
        "functions/topic_shrink",
        "functions/topic_delete_below",
        "functions/topic_delete_marked",
        "functions/topic_delete_match",
        "functions/topic_delete_seqs",
    ),
)


class Migration(migrations.Migration):
    dependencies = [("topics", "0008_objects")]

    operations = OBJECTS.operations()
