"""Routers and the spans they forward (seeds/000 and design.md section 1)."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from topics.models import Cursor, Topic


class Router(models.Model):
    """A forwarding rule. Its cursor and counter stand in Cursor: the row that moves is a narrow one."""

    class Guarantee(models.TextChoices):
        AT_LEAST_ONCE = "at_least_once"
        EXACTLY_ONCE = "exactly_once"

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"
        BLOCKED = "blocked"

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=255, unique=True, db_collation="C")
    # The indexes that foreign keys bring serve the advance (by source) and the reader of a dest (by dest).
    source = models.ForeignKey(Topic, models.CASCADE, related_name="routers_out")
    dest = models.ForeignKey(Topic, models.CASCADE, related_name="routers_in")
    cursor = models.OneToOneField(Cursor, models.PROTECT, related_name="router")
    preserve_node = models.BooleanField(default=True)
    preserve_tag = models.BooleanField(default=True)
    filter_op = models.CharField(max_length=4, null=True, blank=True)  # "Eq" or "Glob"
    filter_tag = models.TextField(null=True, blank=True, db_collation="C")  # a Glob's without its "*"
    allow_cycle = models.BooleanField(default=False)
    allow_fan_in = models.BooleanField(default=False)
    # allow_cycle, or on a cycle that another router's allow_cycle closed: skips what its dest already holds (graph.py).
    cyclic = models.BooleanField(default=False)
    guarantee = models.CharField(max_length=16, choices=Guarantee, default=Guarantee.AT_LEAST_ONCE)
    state = models.CharField(max_length=8, choices=State, default=State.RUNNING)
    last_error = models.TextField(null=True, blank=True)
    errors_total = models.BigIntegerField(default=0)
    retry_ts = models.BigIntegerField(default=0)  # a blocked router is not tried again before
    retry_ms = models.BigIntegerField(default=0)  # the pause until then: doubled each time
    # Bytes of the record that the full dest rejected: once it fits, nobody waits for the pause to end. Null: another error.
    retry_bytes = models.BigIntegerField(null=True, blank=True)
    created_ts = models.BigIntegerField()

    def __str__(self) -> str:
        return self.name


class Span(models.Model):
    """Seqs first_seq..last_seq of a topic are the home's records from home_first_seq on, in order.

    Not `shown`: a piece deleted here, kept so that no cycle brings it back, or, without a home, records
    that the source lost before they could be forwarded.
    """

    pk = models.CompositePrimaryKey("topic_id", "last_seq")
    topic_id = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    first_seq = models.BigIntegerField()
    home_id = models.BigIntegerField(null=True)  # no foreign key: the home may be deleted
    home_first_seq = models.BigIntegerField()
    home_last_seq = models.BigIntegerField()
    ts = models.BigIntegerField()
    shown = models.BooleanField(default=True)
    keep_node = models.BooleanField(default=True)
    keep_tag = models.BooleanField(default=True)
    path = ArrayField(models.TextField())  # the routers it came through: its length is the hop count
    # An exactly_once router's stamp: whose, and the source seq of first_seq.
    stamp_router = models.TextField(null=True, db_collation="C")
    stamp_source = models.TextField(null=True)
    stamp_source_id = models.BigIntegerField(null=True)
    stamp_first_seq = models.BigIntegerField(null=True)

    class Meta:
        indexes = [
            # Which spans show these home records: reclaim.
            models.Index(fields=["home_id", "home_last_seq"], name="routers_span_by_home"),
            # Whether a topic already holds a home record: routers on a cycle.
            models.Index(fields=["home_id", "topic_id", "home_last_seq"], name="routers_span_by_home_in_topic"),
            # Which source seqs an exactly_once router already brought here, by the last of them.
            models.Index(
                "topic_id",
                "stamp_router",
                "stamp_source_id",
                models.F("stamp_first_seq") + models.F("last_seq") - models.F("first_seq"),
                condition=models.Q(stamp_router__isnull=False),
                name="routers_span_by_stamp",
            ),
            # The next loss that a reader must be told of.
            models.Index(
                fields=["topic_id", "last_seq"], condition=models.Q(home_id__isnull=True), name="routers_span_lost"
            ),
        ]
