from django.db import models


class Order(models.Model):
    mail = models.EmailField()
    cents = models.PositiveIntegerField()
    placed_on = models.DateField(auto_now_add=True)
    is_confirmed = models.BooleanField(default=False)  # the customer got a mail


class Day(models.Model):
    """The counts of `tally` from the topic `orders`."""

    day = models.DateField(primary_key=True)
    orders = models.IntegerField(default=0)
    cents = models.BigIntegerField(default=0)
