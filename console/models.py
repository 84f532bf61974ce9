"""What the console keeps for itself: signs of life, samples, tasks that ran, and layouts of the graph."""

from __future__ import annotations

from django.db import models


class Process(models.Model):
    """A process of this site, and when it last said that it lives (signs.py). One that ended an hour ago is forgotten."""

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
    worked_ts = models.BigIntegerField(null=True)  # it last did what it is for: took a task, or sent one

    class Meta:
        indexes = [models.Index(fields=["kind", "seen_ts"], name="console_process_by_kind")]


class Count(models.Model):
    """Something that all web processes count together, as of a few seconds ago. It only grows."""

    name = models.CharField(primary_key=True, max_length=40)
    value = models.BigIntegerField(default=0)


class Sample(models.Model):
    """How a topic, a router or the whole instance stood at a minute (samples.py).

    A minute in which nothing changed has no row: it was as the row before says. The instance's own row (kind "all") is there
    for every minute that was sampled, so a minute without it is one that nobody knows of.
    """

    class Kind(models.TextChoices):
        ALL = "all"
        TOPIC = "topic"
        ROUTER = "router"

    pk = models.CompositePrimaryKey("kind", "object_id", "ts")
    kind = models.CharField(max_length=6, choices=Kind)
    object_id = models.BigIntegerField()  # no foreign key: what is deleted takes its samples along in time
    ts = models.BigIntegerField()
    head_seq = models.BigIntegerField()  # of a topic; of a router what it forwarded; of all what was appended
    reads = models.BigIntegerField(default=0)  # of all: records read
    forwarded = models.BigIntegerField(default=0)  # of all: records forwarded
    count = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    lag = models.BigIntegerField(default=0)  # of a topic, the lag of its slowest named cursor
    oldest_ms = models.BigIntegerField(default=0)  # age of the oldest record that waits
    errors = models.BigIntegerField(default=0)  # of a router its steps that failed, of all the answers with a 5xx

    class Meta:
        indexes = [models.Index(fields=["ts"], name="console_sample_by_age")]


class Task(models.Model):
    """What is known of a Celery task: how often it ran, and how long that took."""

    name = models.CharField(primary_key=True, max_length=100)
    runs = models.BigIntegerField(default=0)
    failures = models.BigIntegerField(default=0)
    total_ms = models.BigIntegerField(default=0)
    last_ts = models.BigIntegerField()
    last_ms = models.BigIntegerField()


class Failure(models.Model):
    """A task that ended in an error. The latest are kept."""

    id = models.BigAutoField(primary_key=True)
    ts = models.BigIntegerField()
    task = models.CharField(max_length=100)
    arguments = models.TextField()
    error = models.TextField()
    trace = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["ts"], name="console_failure_by_age")]


class Layout(models.Model):
    """Where Graphviz put the nodes and edges of a graph (layout.py), by a hash of all that it depends on."""

    key = models.CharField(primary_key=True, max_length=64)
    layout = models.TextField()
    used_ts = models.BigIntegerField()

    class Meta:
        permissions = [
            ("move_router", "May rewind a router, or have it skip records"),
            ("append_record", "May append a test record"),
            ("export_records", "May download records"),
        ]
