"""Routers (docs/routers.md). Forwarded records are stored in the log, as spans (topics/models.py)."""

from __future__ import annotations

from django.db import models

from topics.models import Cursor, Topic


class Router(models.Model):
    """A forwarding rule. The position and the counter are in Cursor, because a narrow row is cheaper to update often."""

    class Guarantee(models.TextChoices):
        AT_LEAST_ONCE = "at_least_once"
        EXACTLY_ONCE = "exactly_once"

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"
        BLOCKED = "blocked"

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=255, unique=True, db_collation="C")
    # The indexes of the foreign keys serve advances (by source) and readers of a dest (by dest).
    source = models.ForeignKey(Topic, models.CASCADE, related_name="routers_out")
    dest = models.ForeignKey(Topic, models.CASCADE, related_name="routers_in")
    cursor = models.OneToOneField(Cursor, models.PROTECT, related_name="router")
    preserve_node = models.BooleanField(default=True)
    preserve_tag = models.BooleanField(default=True)
    filter_op = models.CharField(max_length=4, null=True, blank=True)  # "Eq" or "Glob"
    filter_tag = models.TextField(null=True, blank=True, db_collation="C")  # for Glob without the "*"
    allow_cycle = models.BooleanField(default=False)
    allow_fan_in = models.BooleanField(default=False)
    # True with allow_cycle, or on a cycle that another router closed. Skips records that the dest already contains (graph.py).
    cyclic = models.BooleanField(default=False)
    # The dest merges its sources in the order of their writes. The app that created the router advances it, not routers_advance.
    ordered = models.BooleanField(default=False, db_default=False)
    guarantee = models.CharField(max_length=16, choices=Guarantee, default=Guarantee.AT_LEAST_ONCE)
    state = models.CharField(max_length=8, choices=State, default=State.RUNNING)
    last_error = models.TextField(null=True, blank=True)
    errors_total = models.BigIntegerField(default=0)
    retry_ts = models.BigIntegerField(default=0)  # a blocked router is not retried earlier
    retry_ms = models.BigIntegerField(default=0)  # the length of the pause, doubled each time
    # Size of the record that the full dest rejected. Once the record fits, the router is retried at once. Null: another error.
    retry_bytes = models.BigIntegerField(null=True, blank=True)
    created_ts = models.BigIntegerField()

    def __str__(self) -> str:
        return self.name
