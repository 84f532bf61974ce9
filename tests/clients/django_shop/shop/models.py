from django.db import models
from topics_client.django.models import EmitsChanges


class Order(EmitsChanges):
    topic = "orders"
    total = models.DecimalField(max_digits=9, decimal_places=2)
    placed_at = models.DateTimeField(null=True)


class Item(EmitsChanges):
    topic = "items"
    count = models.IntegerField(default=0)
    name = models.CharField(max_length=20, default="")
    twice = models.GeneratedField(expression=models.F("count") * 2, output_field=models.IntegerField(), db_persist=True)


class Bundle(Item):
    """An item with a row of its own in a second table."""

    size = models.IntegerField()


class Seen(models.Model):
    """What the handlers did."""

    what = models.CharField(max_length=20)
    number = models.IntegerField()
