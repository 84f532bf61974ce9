"""What jobs keep: how far they have read, what they have written, what they found, and when they are to run again.

No row refers to a topic by a foreign key: a topic is deleted by the log, which knows nothing of jobs. A topic's id is never
used twice, so a row of a topic that is gone stands for nothing else, and the next job drops it.
"""

from __future__ import annotations

from typing import Any

from django.db import models


class Reading(models.Model):
    """A job that reads a topic on and on, into one target. How far it has come is its cursor, of kind `pipeline`, and this name.

    `upto_seq` is the end of the step under way: it is kept before anything of the step is written, so that after a kill the same
    range is written again, over what was left of it.
    """

    id = models.BigAutoField(primary_key=True)
    topic_id = models.BigIntegerField()
    name = models.CharField(max_length=255, db_collation="C")
    target = models.TextField()
    upto_seq = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic_id", "name"], name="pipeline_reading_of_topic")]


class Written(models.Model):
    """The last batch that a writer appended to a topic from a partition, kept in the transaction of the append itself."""

    id = models.BigAutoField(primary_key=True)
    topic_id = models.BigIntegerField()
    writer = models.CharField(max_length=255, db_collation="C")  # a streaming query, a batch write, a restore
    partition = models.IntegerField()
    batch = models.BigIntegerField()
    records = models.BigIntegerField()
    ts = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["topic_id", "writer", "partition"], name="pipeline_written_by_partition")
        ]


class Rollup(models.Model):
    """What one topic got in one minute from one node under one tag prefix. "" stands for no node, and for no tag."""

    id = models.BigAutoField(primary_key=True)
    topic_id = models.BigIntegerField()
    minute_ts = models.BigIntegerField()
    node = models.TextField(db_collation="C")
    tag_prefix = models.TextField(db_collation="C")
    records = models.BigIntegerField()
    bytes = models.BigIntegerField()
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()

    class Meta:
        constraints = [
            # Also the chart of a topic: its minutes in order.
            models.UniqueConstraint(fields=["topic_id", "minute_ts", "node", "tag_prefix"], name="pipeline_rollup_key"),
        ]


class Delay(models.Model):
    """How many records of one minute a router brought within a delay: a histogram, so that late records only add to it."""

    id = models.BigAutoField(primary_key=True)
    topic_id = models.BigIntegerField()  # the dest
    router = models.TextField(db_collation="C")
    minute_ts = models.BigIntegerField()
    bucket = models.IntegerField()  # pipeline/delays.py
    records = models.BigIntegerField()

    class Meta:
        constraints = [
            # Also the chart of a router.
            models.UniqueConstraint(fields=["router", "topic_id", "minute_ts", "bucket"], name="pipeline_delay_key"),
        ]


class Staged(models.Model):
    """What executors found in a step of a rollup, until the step moves it to Rollup or Delay together with its cursor."""

    id = models.BigAutoField(primary_key=True)
    reading_id = models.BigIntegerField()
    router = models.TextField(null=True)
    minute_ts = models.BigIntegerField()
    node = models.TextField(null=True)
    tag_prefix = models.TextField(null=True)
    bucket = models.IntegerField(null=True)
    records = models.BigIntegerField()
    bytes = models.BigIntegerField(null=True)
    first_seq = models.BigIntegerField(null=True)
    last_seq = models.BigIntegerField(null=True)

    class Meta:
        indexes = [models.Index(fields=["reading_id"], name="pipeline_staged_by_reading")]  # the end of a step


class Job(models.TextChoices):
    ARCHIVE = "archive"
    VERIFY = "verify"
    RESTORE = "restore"
    ROLLUP = "rollup"
    AUDIT = "audit"
    LATEST = "latest"


class Run(models.Model):
    """One run of a job: what it read and wrote, and what it reports."""

    class State(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        WRONG = "wrong", "found something wrong"
        FAILED = "failed"

    id = models.BigAutoField(primary_key=True)
    job = models.CharField(max_length=8, choices=Job)
    options = models.JSONField()
    state = models.CharField(max_length=8, choices=State, default=State.RUNNING)
    started_ts = models.BigIntegerField()
    finished_ts = models.BigIntegerField(null=True)
    read = models.BigIntegerField(default=0)  # records
    written = models.BigIntegerField(default=0)
    summary = models.TextField(blank=True, default="")
    report = models.JSONField(null=True)

    class Meta:
        indexes = [models.Index(fields=["-started_ts"], name="pipeline_run_by_start")]  # the list in the admin

    def __str__(self) -> str:
        return f"{self.job} {self.id}"


class Schedule(models.Model):
    """A job that a worker starts every so many minutes (pipeline/tasks.py)."""

    id = models.BigAutoField(primary_key=True)
    job = models.CharField(max_length=8, choices=Job)
    options = models.JSONField(
        default=dict, blank=True, help_text='As on the command line: {"topic": "orders", "out": "/archive"}'
    )
    every_minutes = models.PositiveIntegerField(default=60)
    enabled = models.BooleanField(default=True)
    next_ts = models.BigIntegerField(default=0, editable=False)  # due from then on
    last_run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return " ".join([self.job, *(str(value) for value in as_dict(self.options).values())])


def as_dict(options: Any) -> dict[str, Any]:
    """Options as they are, and none of anything else: what a form holds before it is checked."""
    return options if isinstance(options, dict) else {}
