"""The Celery app and its beat schedule (settings.CELERY_BEAT_SCHEDULE). Each Django app has its tasks in a module `tasks`."""

import os
import signal
import warnings
from contextlib import closing, suppress
from typing import Any

import redis
from celery import Celery
from celery.beat import Service
from celery.exceptions import CPendingDeprecationWarning
from celery.signals import (
    beat_init,
    setup_logging,
    task_prerun,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)
from django.conf import settings
from django.db import close_old_connections

from base import redis_client
from base.processes import die_with_parent
from base.tracing import tracing
from topics_project import heartbeats
from topics_project.operations import old_queues

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
app = Celery("topics", task_cls="topics_project.periodic:RepeatedTask", amqp="topics_project.broker:AMQP")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()  # the default app of all threads; otherwise other threads would publish to a wrong broker


class PoolOwner:
    """The worker that owns this pool process."""

    pid: int | None = None


owner = PoolOwner()


if settings.TOPICS_LOG == "json":

    @setup_logging.connect
    def log_as_json(**_: Any) -> None:
        """Keeps Django's log, whose lines are JSON. Without a receiver, Celery would set up plain lines."""


@task_prerun.connect
def mend_connection(**_: Any) -> None:
    """Replaces connections that PostgreSQL has closed, like Django before a request."""
    close_old_connections()


@worker_init.connect
def note_parent(**_: Any) -> None:
    """Stores the worker's pid before the pool starts. The pool's processes are forks, and read the pid of their parent here."""
    owner.pid = os.getpid()


@worker_init.connect
def beat_as_worker(sender: Any, **_: Any) -> None:
    """Starts the heartbeat early, because the supervisor does not notice a process that freezes before its first heartbeat."""
    heartbeats.in_thread("push" if str(sender.hostname).startswith("push-") else "worker")


@worker_process_init.connect
def beat_as_pool(**_: Any) -> None:
    heartbeats.in_thread("worker's pool")


@beat_init.connect
def beat_as_beat(**_: Any) -> None:
    heartbeats.in_thread("beat")


@worker_process_init.connect
def limit_connections(**_: Any) -> None:
    """Sets timeouts, so that no background task holds a lock or waits for a lock without limit."""
    from store import timeouts  # Django is set up by now

    timeouts.serve("worker", settings.TOPICS_WORKER_STATEMENT_TIMEOUT_MS)


@worker_ready.connect
def relay(sender: Any, **_: Any) -> None:
    """Starts the relay of a worker, after the pool has its processes: a thread does not come along into a fork."""
    from outbox import relay  # Django is set up by now

    if not str(sender.hostname).startswith("push-"):
        worker_shutting_down.connect(lambda **_: relay.process.stop(), weak=False)
        relay.process.start()


@worker_ready.connect
def be_quiet(**_: Any) -> None:
    """Celery warns at each outage of Redis of a setting whose default a later Celery changes. We keep the default of this one."""
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)


@worker_ready.connect
def drop_old_messages(sender: Any, **_: Any) -> None:
    """Runs at the first start after an upgrade from a release up to 0.3.0, and finds nothing later."""
    with suppress(redis.RedisError), closing(redis_client.connect(settings.REDIS_URL, socket_timeout=5)) as client:
        old_queues.drop_ours(client, {name for name in sender.app.tasks if not name.startswith("celery.")})


@worker_process_init.connect
def trace(**_: Any) -> None:
    tracing.load()


@worker_process_shutdown.connect
def end_trace(**_: Any) -> None:
    tracing.close()


@worker_process_init.connect
def follow_parent(**_: Any) -> None:
    """Makes a pool process exit with its worker. A fork does not inherit this request to the kernel."""
    if os.environ.get("TOPICS_SUPERVISED"):
        die_with_parent(owner.pid)


@beat_init.connect
def end_between_ticks(sender: Service, **_: Any) -> None:
    """Replaces Celery's signal handlers, which close everything at any point of a tick (operations/beat.py)."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, sender.scheduler.end)
