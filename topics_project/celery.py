"""The Celery app and its beat schedule (settings.CELERY_BEAT_SCHEDULE). Each app has its tasks in a module `tasks`."""

import os
import signal
from typing import Any

from celery import Celery
from celery.beat import Service
from celery.signals import beat_init, task_prerun, worker_init, worker_process_init
from django.conf import settings
from django.db import close_old_connections

from base.processes import die_with_parent
from topics_project import heartbeats

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
app = Celery("topics")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()  # for every thread: otherwise it counts in this one alone, and others publish to a broker of nobody's
_parent: int | None = None  # the worker whose pool this process belongs to


@task_prerun.connect
def mend_connection(**_: Any) -> None:
    """As Django does before a request: a kept connection that PostgreSQL has closed is replaced, not used."""
    close_old_connections()


@worker_init.connect
def note_parent(**_: Any) -> None:
    """Before the pool is made: its processes, which are forks, know by this whose they are."""
    global _parent
    _parent = os.getpid()


@worker_init.connect
def beat_as_worker(sender: Any, **_: Any) -> None:
    """Early, because a process that stops before its first beat is not missed."""
    heartbeats.in_thread("push" if str(sender.hostname).startswith("push-") else "worker")


@worker_process_init.connect
def beat_as_pool(**_: Any) -> None:
    heartbeats.in_thread("worker's pool")


@beat_init.connect
def beat_as_beat(**_: Any) -> None:
    heartbeats.in_thread("beat")


@worker_process_init.connect
def limit_connections(**_: Any) -> None:
    """Nothing that the pool's processes do in the background may hold a lock for ever, or wait for one."""
    from store import timeouts  # Django is set up by now

    timeouts.serve("worker", settings.TOPICS_WORKER_STATEMENT_TIMEOUT_MS)


@worker_process_init.connect
def follow_parent(**_: Any) -> None:
    """A fork does not inherit what its parent asked the kernel for."""
    if os.environ.get("TOPICS_SUPERVISED"):
        die_with_parent(_parent)


@beat_init.connect
def end_between_ticks(sender: Service, **_: Any) -> None:
    """Instead of Celery's own handlers, which close everything wherever a signal finds beat (beat.py)."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, sender.scheduler.end)
