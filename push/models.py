"""The bus's tables. Events are stored in the log: bus topics and queues are topics, subscriptions to a topic are routers.

Times are integer milliseconds since the Unix epoch.
"""

from __future__ import annotations

from django.db import models

from push.bus.names import MOST_LETTERS


class BusClient(models.Model):
    """A client that may publish and subscribe. The token is the client's identity.

    After a delete `token` is null, and `token_sha256` is set. If the same token is created again, this client is restored, with
    its topics and its subscription.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=64, db_collation="C")
    token = models.CharField(max_length=128, unique=True, null=True, blank=True, db_collation="C")
    created_ts = models.BigIntegerField()
    deleted_ts = models.BigIntegerField(null=True, blank=True)
    token_sha256 = models.BinaryField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name}.{self.pk}"


class BusTopic(models.Model):
    """A topic and its publisher. The events are in the topic `bus:NAME`."""

    name = models.CharField(primary_key=True, max_length=MOST_LETTERS, db_collation="C")
    # Null: the topic has only subscribers yet. The first client that publishes becomes the publisher.
    publisher = models.ForeignKey(BusClient, models.PROTECT, related_name="topics", null=True)
    created_ts = models.BigIntegerField()

    class Meta:
        verbose_name = "bus topic"

    def __str__(self) -> str:
        return self.name


class Subscriber(models.Model):
    """A client's subscription: the callback of its queue, the health of deliveries, and the current batch.

    The position of delivery is a Cursor of the queue. `lease` is the number of the last lease. The holder of an older lease can
    change nothing (sql/functions/push_settle.sql). A batch does not change until it is acknowledged.
    """

    client = models.OneToOneField(BusClient, models.PROTECT, primary_key=True, related_name="subscriber")
    queue = models.CharField(max_length=255, unique=True, db_collation="C")  # the topic's name
    callback = models.TextField()
    uuid = models.TextField(null=True, blank=True)
    timeout_ms = models.IntegerField(default=500)
    max_events = models.IntegerField(default=100)
    paused = models.BooleanField(default=False)
    unsubscribed_ts = models.BigIntegerField(null=True, blank=True)  # queued events are still delivered
    created_ts = models.BigIntegerField()

    health = models.IntegerField(default=100)
    retry_ts = models.BigIntegerField(default=0)  # the next attempt is not earlier
    last_error = models.TextField(null=True, blank=True)
    last_delivery_ts = models.BigIntegerField(null=True, blank=True)  # the last acknowledged delivery
    sent_total = models.BigIntegerField(default=0)
    dropped_total = models.BigIntegerField(default=0)  # by autodrop
    unreadable_total = models.BigIntegerField(default=0, db_default=0)  # put aside, because PostgreSQL cannot read them
    passed_total = models.BigIntegerField(default=0, db_default=0)  # records that are not events (bus/events.py)
    dropped = models.BigIntegerField(default=0)  # dropped or put aside: the next batch reports this number

    lease = models.BigIntegerField(default=0)
    leased_until_ts = models.BigIntegerField(default=0)
    batch_id = models.CharField(max_length=36, null=True, blank=True)
    batch_first_seq = models.BigIntegerField(null=True, blank=True)
    batch_last_seq = models.BigIntegerField(null=True, blank=True)
    batch_attempts = models.IntegerField(default=0)
    batch_ts = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.client)


class Delivery(models.Model):
    """One attempt to deliver a batch. Kept for PUSH_LOG_DAYS."""

    id = models.BigAutoField(primary_key=True)
    subscriber = models.ForeignKey(Subscriber, models.CASCADE, related_name="deliveries", db_index=False)
    ts = models.BigIntegerField()
    batch_id = models.CharField(max_length=36)
    attempt = models.IntegerField()
    status = models.IntegerField(null=True)  # of HTTP. Null: no answer
    error = models.TextField(null=True)  # null: acknowledged
    duration_ms = models.FloatField()
    events = models.IntegerField()
    bytes = models.IntegerField()
    first_seq = models.BigIntegerField(null=True)  # of the batch in its queue. Null: an older release wrote the row
    last_seq = models.BigIntegerField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        indexes = [
            models.Index(fields=["subscriber", "id"], name="push_delivery_of_subscriber"),  # a page of one's log
            models.Index(fields=["ts"], name="push_delivery_by_age"),  # the sweep of old ones
        ]

    def __str__(self) -> str:
        return f"{self.batch_id} attempt {self.attempt}"


class Webhook(models.Model):
    """A webhook: its config, its secrets, the health of its endpoint, and the lease of the process that serves it.

    The positions are cursors of its topics. Records that wait for another attempt are in push_webhookwaiting, and attempts in
    push_webhooklog (sql/tables/). `lease` is the number of the last lease, and `settled` counts what its holder has settled
    (sql/functions/webhook_settle.sql). While `halted_until_ts` is ahead, no process takes the webhook, because a call changes it.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=255, unique=True, db_collation="C")
    prefixes = models.TextField(
        blank=True, default="", db_default=""
    )  # of the key that created it, separated by spaces
    url = models.TextField()
    config = models.JSONField()  # webhooks/config.py
    secret = models.TextField()
    previous_secret = models.TextField(null=True, blank=True)
    previous_until_ts = models.BigIntegerField(
        default=0, db_default=0
    )  # until then, calls have a signature by the previous secret, too
    created_ts = models.BigIntegerField()
    updated_ts = models.BigIntegerField()

    paused = models.BooleanField(default=False, db_default=False)
    pause_reason = models.TextField(null=True, blank=True)
    failures = models.IntegerField(default=0, db_default=0)  # in a row
    retry_ts = models.BigIntegerField(default=0, db_default=0)  # a failing endpoint gets no call earlier
    last_error = models.TextField(null=True, blank=True)
    last_success_ts = models.BigIntegerField(null=True, blank=True)
    delivered_total = models.BigIntegerField(default=0, db_default=0)  # records
    dead_total = models.BigIntegerField(default=0, db_default=0)  # records without an attempt left
    calls_total = models.BigIntegerField(default=0, db_default=0)
    failed_total = models.BigIntegerField(default=0, db_default=0)  # calls
    ms_total = models.BigIntegerField(default=0, db_default=0)  # of calls

    lease = models.BigIntegerField(default=0, db_default=0)
    settled = models.BigIntegerField(default=0, db_default=0)
    leased_until_ts = models.BigIntegerField(default=0, db_default=0)
    halted_until_ts = models.BigIntegerField(default=0, db_default=0)

    def __str__(self) -> str:
        return self.name


class Counter(models.Model):
    """Counts of all processes for the metrics of the page (reports/metrics.py), updated every few seconds."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=64, db_collation="C")
    tags = models.CharField(max_length=255, db_collation="C")  # "status:success,queue:billing"
    total = models.FloatField()
    reported = models.FloatField(default=0)  # the part of `total` that a collection service has received

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "tags"], name="push_counter_name")]
