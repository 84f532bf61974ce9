"""Creates the table of mirrors."""

from django.db import migrations

from store.objects import Objects

OBJECTS = Objects(
    __file__,
    creates=("tables/mirrors_site",),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline")]

    operations = OBJECTS.operations()
