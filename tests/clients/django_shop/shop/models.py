from django.db import models
from topics_client.django.models import EmitsChanges


class Order(EmitsChanges):
    topic = "orders"
    total = models.DecimalField(max_digits=9, decimal_places=2)
    placed_at = models.DateTimeField(null=True)


class Seen(models.Model):
    """What the handlers did."""

    what = models.CharField(max_length=20)
    number = models.IntegerField()
