"""What Celery does: tasks that ran and that failed, noted by the processes that run them; queues; the schedule.

A process of the worker notes its tasks in memory and writes them down every two seconds at the most: some run often.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from celery import signals
from django.conf import settings

from base.clock import now_ms
from console import signs
from console.models import Failure, Task
from store.database import prepared

QUEUE = signs.QUEUE
MOST_FAILURES = 1000  # that are kept
MOST_TEXT = 4000  # characters kept of arguments and errors
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
    """What one task did since it was last written down."""

    def __init__(self) -> None:
        self.runs = self.failures = self.total_ms = self.last_ms = self.last_ts = 0


_ran: dict[str, Ran] = {}
_started = threading.local()
_written = 0.0


def note_start(**_: Any) -> None:
    _started.at = time.monotonic()


def note_end(task: Any = None, **_: Any) -> None:
    """A task has ended, well or not."""
    took = int((time.monotonic() - getattr(_started, "at", time.monotonic())) * 1000)
    ran = _ran.setdefault(str(task.name), Ran())
    ran.runs += 1
    ran.total_ms += took
    ran.last_ms, ran.last_ts = took, now_ms()
    write()


def note_failure(sender: Any = None, args: Any = (), exception: Any = None, einfo: Any = None, **_: Any) -> None:
    _ran.setdefault(str(sender.name), Ran()).failures += 1
    Failure.objects.create(
        ts=now_ms(),
        task=str(sender.name)[:100],
        arguments=cut(repr(args)),
        error=cut(repr(exception)),
        trace=cut(str(einfo)),
    )


def cut(text: str) -> str:
    """Text as PostgreSQL takes it, and no more of it than helps."""
    return text.replace("\0", "\\0")[:MOST_TEXT]


def write(now: float | None = None) -> None:
    """Write down what was noted, unless that was done just now."""
    global _written
    now = time.monotonic() if now is None else now
    if now < _written + WRITE_SECONDS:
        return
    _written = now
    noted = dict(_ran)
    _ran.clear()
    for name, ran in sorted(noted.items()):
        prepared(WRITE, {"name": name, **vars(ran)})


def drop_old() -> None:
    """Keep the latest failures."""
    prepared(DROP_OLD, [MOST_FAILURES])


def listen() -> None:
    """Have Celery tell us: in the worker's processes of tasks, and in the worker and beat of their start."""
    signals.task_prerun.connect(note_start, weak=False)
    signals.task_postrun.connect(note_end, weak=False)
    signals.task_failure.connect(note_failure, weak=False)
    signals.worker_ready.connect(worker_ready, weak=False)
    signals.beat_init.connect(beat_ready, weak=False)


def worker_ready(sender: Any, **_: Any) -> None:
    """A worker's main process, once it takes tasks; those of its pool were forked before. One that takes none of the queue that
    everything stands in delivers to callbacks alone."""
    kind = "worker" if QUEUE in sender.app.amqp.queues.consume_from else "push"
    signals.task_received.connect(signs.start(kind).worked, weak=False)


def beat_ready(**_: Any) -> None:
    signals.after_task_publish.connect(signs.start("beat").worked, weak=False)


class Scheduled(NamedTuple):
    """An entry of beat's schedule, and what is known of its task."""

    name: str
    task: str
    every_seconds: float
    ran: Task | None


def schedule() -> list[Scheduled]:
    ran = {task.name: task for task in Task.objects.all()}
    entries = settings.CELERY_BEAT_SCHEDULE.items()
    return [Scheduled(name, each["task"], each["schedule"], ran.get(each["task"])) for name, each in entries]
