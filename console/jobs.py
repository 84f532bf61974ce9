"""Celery's tasks and failures, recorded by the processes that run them, and beat's schedule.

A worker process counts its tasks in memory and writes the counts at most every two seconds, because some tasks run often.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from celery import signals
from django.conf import settings

from base.clock import now_ms
from console.health import heartbeat
from console.models import Failure, Task
from store.database import prepared

QUEUE = heartbeat.QUEUE
MOST_FAILURES = 1000  # number of failures that are kept
MOST_TEXT = 4000  # characters of arguments and errors that are kept
WRITE_SECONDS = 2.0

WRITE = """
INSERT INTO console_task (name, runs, failures, total_ms, last_ts, last_ms)
VALUES (%(name)s, %(runs)s, %(failures)s, %(total_ms)s, %(last_ts)s, %(last_ms)s)
    ON CONFLICT (name) DO UPDATE
   SET runs = console_task.runs + excluded.runs, failures = console_task.failures + excluded.failures,
       total_ms = console_task.total_ms + excluded.total_ms, last_ts = excluded.last_ts, last_ms = excluded.last_ms
"""
DROP_OLD = "DELETE FROM console_failure WHERE id <= (SELECT max(id) FROM console_failure) - %s"


class Ran:
    """The runs of one task since the last write."""

    def __init__(self) -> None:
        self.runs = self.failures = self.total_ms = self.last_ms = self.last_ts = 0


class Tasks:
    """The tasks of this process since the last write."""

    def __init__(self) -> None:
        self.ran: dict[str, Ran] = {}
        self.started = threading.local()
        self.written = 0.0

    def note_start(self, **_: Any) -> None:
        self.started.at = time.monotonic()

    def note_end(self, task: Any = None, **_: Any) -> None:
        """Counts a task that has ended, with or without an error."""
        took = int((time.monotonic() - getattr(self.started, "at", time.monotonic())) * 1000)
        ran = self.ran.setdefault(str(task.name), Ran())
        ran.runs += 1
        ran.total_ms += took
        ran.last_ms, ran.last_ts = took, now_ms()
        self.write()

    def note_failure(
        self, sender: Any = None, args: Any = (), exception: Any = None, einfo: Any = None, **_: Any
    ) -> None:
        self.ran.setdefault(str(sender.name), Ran()).failures += 1
        Failure.objects.create(
            ts=now_ms(),
            task=str(sender.name)[:100],
            arguments=cut(repr(args)),
            error=cut(repr(exception)),
            trace=cut(str(einfo)),
        )

    def write(self) -> None:
        """Writes the counts, unless the last write was less than WRITE_SECONDS ago."""
        now = time.monotonic()
        if now < self.written + WRITE_SECONDS:
            return
        self.written = now
        noted, self.ran = self.ran, {}
        for name, ran in sorted(noted.items()):
            prepared(WRITE, {"name": name, **vars(ran)})


process = Tasks()


def cut(text: str) -> str:
    """Returns at most MOST_TEXT characters of a text, without NUL characters, which PostgreSQL rejects."""
    return text.replace("\0", "\\0")[:MOST_TEXT]


def drop_old() -> None:
    """Deletes all failures except the latest MOST_FAILURES."""
    prepared(DROP_OLD, [MOST_FAILURES])


def listen() -> None:
    """Connects Celery's signals: tasks in the worker's processes, and the start of the worker and of beat."""
    signals.task_prerun.connect(process.note_start, weak=False)
    signals.task_postrun.connect(process.note_end, weak=False)
    signals.task_failure.connect(process.note_failure, weak=False)
    signals.worker_ready.connect(worker_ready, weak=False)
    signals.beat_init.connect(beat_ready, weak=False)
    signals.worker_shutdown.connect(heartbeat.process.say_goodbye, weak=False)


def worker_ready(sender: Any, **_: Any) -> None:
    """Starts the signs of a worker's main process when it accepts tasks. Its pool was forked earlier. A worker without the
    default queue only delivers to callbacks, and has the kind "push"."""
    kind = "worker" if QUEUE in sender.app.amqp.queues.consume_from else "push"
    signals.task_received.connect(heartbeat.start(kind).worked, weak=False)


def beat_ready(**_: Any) -> None:
    signals.after_task_publish.connect(heartbeat.start("beat").worked, weak=False)


class Scheduled(NamedTuple):
    """An entry of beat's schedule, with the counts of its task."""

    name: str
    task: str
    every_seconds: float
    ran: Task | None


def schedule() -> list[Scheduled]:
    ran = {task.name: task for task in Task.objects.all()}
    entries = settings.CELERY_BEAT_SCHEDULE.items()
    return [Scheduled(name, each["task"], each["schedule"], ran.get(each["task"])) for name, each in entries]
