"""SQL objects that changed after v0.2.0."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    creates=(
        "functions/topic_is_whole",
        "functions/topic_matching",
        "functions/topic_diff_matches",
        "functions/topic_next",
        "functions/topic_shown",
        "functions/topic_make_room",
    ),
    replaces=(
        "functions/topic_seq_of_bytes",
        "functions/topic_floor_for",
        "functions/topic_trim",
    ),
)


class Migration(migrations.Migration):
    dependencies = [("topics", "0001_baseline")]

    operations = OBJECTS.operations()
