"""The tables of jobs: read positions, written batches, results, and schedules.

No row has a foreign key to a topic, because the log deletes topics and does not know jobs. Topic ids are never reused. So a row
of a deleted topic is harmless, and the next job deletes the row.
"""

from __future__ import annotations

from typing import Any

from django.db import models


class Reading(models.Model):
    """A job that repeatedly reads a topic into one target.

    Its position is the cursor with the kind `pipeline` and the same name.

    `upto_seq` is the end of the current step, or null. The job stores `upto_seq` before the step writes its first output. So
    after a kill the next run writes the same range again and replaces the leftovers.
    """

    id = models.BigAutoField(primary_key=True)
    topic_id = models.BigIntegerField()
    name = models.CharField(max_length=255, db_collation="C")
    target = models.TextField()
    upto_seq = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic_id", "name"], name="pipeline_reading_of_topic")]


class Written(models.Model):
    """The last batch that a writer appended to a topic from a partition. The transaction of the append writes this row."""

    id = models.BigAutoField(primary_key=True)
    topic_id = models.BigIntegerField()
    writer = models.CharField(max_length=255, db_collation="C")  # id of a streaming query, a batch write, or a restore
    partition = models.IntegerField()
    batch = models.BigIntegerField()
    records = models.BigIntegerField()
    ts = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["topic_id", "writer", "partition"], name="pipeline_written_by_partition")
        ]
        indexes = [
            # For the tidying of unnamed writes (tasks.py).
            models.Index(fields=["id"], condition=models.Q(writer__startswith="once:"), name="pipeline_written_once"),
        ]


class Rollup(models.Model):
    """The records that a topic got in one minute from one node with one tag prefix. "" means no node, or no tag."""

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
            # The index also serves the topic's chart, which reads minutes in order.
            models.UniqueConstraint(fields=["topic_id", "minute_ts", "node", "tag_prefix"], name="pipeline_rollup_key"),
        ]


class Delay(models.Model):
    """How many records of a minute a router forwarded within a delay.

    The rows are a histogram, so late records only add to counts.
    """

    id = models.BigAutoField(primary_key=True)
    topic_id = models.BigIntegerField()  # the dest
    router = models.TextField(db_collation="C")
    minute_ts = models.BigIntegerField()
    bucket = models.IntegerField()  # pipeline/delays.py
    records = models.BigIntegerField()

    class Meta:
        constraints = [
            # The index also serves the router's chart.
            models.UniqueConstraint(fields=["router", "topic_id", "minute_ts", "bucket"], name="pipeline_delay_key"),
        ]


class Staged(models.Model):
    """The results of executors in one step of a rollup.

    The end of the step moves the rows to Rollup or Delay and advances the cursor.
    """

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
        indexes = [models.Index(fields=["reading_id"], name="pipeline_staged_by_reading")]  # for the end of a step


class Job(models.TextChoices):
    ARCHIVE = "archive"
    VERIFY = "verify"
    RESTORE = "restore"
    ROLLUP = "rollup"
    AUDIT = "audit"
    LATEST = "latest"


class Run(models.Model):
    """One run of a job, with the counts of read and written records and the report."""

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
        indexes = [models.Index(fields=["-started_ts"], name="pipeline_run_by_start")]  # for the list in the admin

    def __str__(self) -> str:
        return f"{self.job} {self.id}"


class Schedule(models.Model):
    """A job that a worker starts every `every_minutes` minutes (pipeline/tasks.py)."""

    id = models.BigAutoField(primary_key=True)
    job = models.CharField(max_length=8, choices=Job)
    options = models.JSONField(
        default=dict, blank=True, help_text='As on the command line: {"topic": "orders", "out": "/archive"}'
    )
    every_minutes = models.PositiveIntegerField(default=60)
    enabled = models.BooleanField(default=True)
    next_ts = models.BigIntegerField(default=0, editable=False)  # when the job is due
    last_run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return " ".join([self.job, *(str(value) for value in as_dict(self.options).values())])


def as_dict(options: Any) -> dict[str, Any]:
    """Returns options that are a dict, otherwise {}. A form can hold any JSON before validation."""
    return options if isinstance(options, dict) else {}
