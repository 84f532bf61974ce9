"""SQL objects that changed."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    creates=("functions/topic_era",),
    replaces=(
        "functions/topic_shrink",
        "functions/topic_trim",
        "functions/topic_evict",
        "functions/topic_expire",
        "functions/topic_append_judged",
        "functions/topic_make_room",
        "functions/topics_skip_reserved",
    ),
)


class Migration(migrations.Migration):
    dependencies = [("topics", "0007_era")]

    operations = OBJECTS.operations()
