"""Tables of the console: heartbeats, samples, signals, task counts, and layouts of the graph."""

from __future__ import annotations

from django.db import models


class Process(models.Model):
    """A process of this site, and its last heartbeat (health/heartbeat.py). The row is deleted an hour after that."""

    class Kind(models.TextChoices):
        WEB = "web"
        WORKER = "worker"
        PUSH = "push"  # a worker that delivers to callbacks
        BEAT = "beat"

    id = models.CharField(primary_key=True, max_length=80)
    kind = models.CharField(max_length=8, choices=Kind)
    host = models.CharField(max_length=64)
    pid = models.IntegerField()
    started_ts = models.BigIntegerField()
    seen_ts = models.BigIntegerField()
    worked_ts = models.BigIntegerField(null=True)  # when it last took a task (a worker) or sent a task (beat)

    class Meta:
        indexes = [models.Index(fields=["kind", "seen_ts"], name="console_process_by_kind")]


class Count(models.Model):
    """A total over all web processes, a few seconds old. It only grows."""

    name = models.CharField(primary_key=True, max_length=40)
    value = models.BigIntegerField(default=0)


class Sample(models.Model):
    """The state of a topic, a router, a webhook or the whole instance at a minute (history/samples.py).

    A minute without changes has no row: the previous row still holds. The instance's own row (kind "all") exists for every
    sampled minute. If the row is missing, the state at the minute is unknown.
    """

    class Kind(models.TextChoices):
        ALL = "all"
        TOPIC = "topic"
        ROUTER = "router"
        WEBHOOK = "hook"

    pk = models.CompositePrimaryKey("kind", "object_id", "ts")
    kind = models.CharField(max_length=6, choices=Kind)
    object_id = models.BigIntegerField()  # no foreign key: history/gone.py deletes the samples of deleted objects
    ts = models.BigIntegerField()
    head_seq = models.BigIntegerField()  # topic: head; router: records forwarded; webhook: delivered; all: appended
    reads = models.BigIntegerField(default=0)  # all: records read
    forwarded = models.BigIntegerField(default=0)  # all: records forwarded
    count = models.BigIntegerField(default=0)  # webhook: calls
    bytes = models.BigIntegerField(default=0)  # webhook: milliseconds of its calls
    lag = models.BigIntegerField(
        default=0
    )  # topic: lag of its slowest named cursor; webhook: records that wait for another call
    oldest_ms = models.BigIntegerField(default=0)  # age of the oldest record that waits
    errors = models.BigIntegerField(default=0)  # router: failed steps; webhook: failed calls; all: answers with a 5xx

    class Meta:
        indexes = [models.Index(fields=["ts"], name="console_sample_by_age")]


class Signal(models.Model):
    """A problem of this instance (health/signals.py). It is open until `closed_ts`. `absent_ts`: since when no look finds it."""

    class Level(models.TextChoices):
        BAD = "bad"
        WARN = "warn"

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=40, db_collation="C")
    object = models.TextField(db_collation="C")
    level = models.CharField(max_length=4, choices=Level)
    text = models.TextField()
    advice = models.TextField()
    url = models.TextField()
    act = models.TextField()
    because = models.JSONField(default=list)  # objects whose signal would explain this one
    since_ts = models.BigIntegerField()
    opened_ts = models.BigIntegerField()
    absent_ts = models.BigIntegerField(null=True)
    closed_ts = models.BigIntegerField(null=True)
    times = models.IntegerField(default=1)  # how often it came while it was open
    reason = models.TextField(default="")  # of the silence
    silenced_by = models.TextField(default="")
    silenced_until_ts = models.BigIntegerField(null=True)

    class Meta:
        permissions = [("silence_signal", "May silence a signal")]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "object"], condition=models.Q(closed_ts=None), name="console_signal_open"
            )
        ]
        indexes = [
            models.Index(
                fields=["kind", "object", "id"], name="console_signal_of_object"
            ),  # a silence that still holds
            models.Index(fields=["closed_ts"], name="console_signal_by_age"),
        ]


class Judgement(models.Model):
    """The place at which the next look for problems continues. One row."""

    id = models.SmallIntegerField(primary_key=True)
    place = models.JSONField()


class Task(models.Model):
    """Totals of a Celery task: runs, failures, time."""

    name = models.CharField(primary_key=True, max_length=100)
    runs = models.BigIntegerField(default=0)
    failures = models.BigIntegerField(default=0)
    total_ms = models.BigIntegerField(default=0)
    last_ts = models.BigIntegerField()
    last_ms = models.BigIntegerField()


class Failure(models.Model):
    """A task that ended in an error. Only the latest rows are kept."""

    id = models.BigAutoField(primary_key=True)
    ts = models.BigIntegerField()
    task = models.CharField(max_length=100)
    arguments = models.TextField()
    error = models.TextField()
    trace = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["ts"], name="console_failure_by_age")]


class Layout(models.Model):
    """Graphviz's positions of the nodes and edges of a graph (graph/layout.py), by a hash of all that the layout depends on."""

    key = models.CharField(primary_key=True, max_length=64)
    layout = models.TextField()
    used_ts = models.BigIntegerField()

    class Meta:
        permissions = [
            ("move_router", "May rewind a router, or have it skip records"),
            ("append_record", "May append a test record"),
            ("export_records", "May download records"),
        ]
