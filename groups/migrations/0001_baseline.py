"""Creates the tables and SQL objects of consumer groups."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    creates=(
        "tables/groups_group",
        "tables/groups_member",
        "tables/groups_share",
        "functions/groups_assign",
        "functions/groups_join",
        "functions/groups_settle",
        "functions/groups_commit",
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline")]

    operations = OBJECTS.operations()
