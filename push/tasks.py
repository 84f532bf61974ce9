"""Celery tasks of the worker of the queue `push`: the dispatcher, which delivers, and the periodic tasks around it."""

from __future__ import annotations

import os
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings

from base.clock import now_ms
from base.descriptors import raise_limit
from base.tracing import tracing
from push import autodrop, upkeep
from push.delivery import running
from push.reports import reporters
from store import timeouts
from topics.upkeep.past import upkeep_ms

QUEUE = settings.CELERY_TASK_ROUTES["push.*"]["queue"]
NICE = 5  # if cores are scarce, publishers come first: queued events can wait, publishers cannot


@worker_ready.connect
def start_dispatcher(sender: Any, **_: Any) -> None:
    """Starts the dispatcher, but only in a worker that serves this queue."""
    if QUEUE in sender.app.amqp.queues.consume_from:
        os.nice(NICE)
        raise_limit()  # each call has a connection
        timeouts.serve("push", settings.TOPICS_WORKER_STATEMENT_TIMEOUT_MS)
        tracing.load()
        running.start()


@worker_shutting_down.connect
def stop_dispatcher(**_: Any) -> None:
    running.stop()
    tracing.close()


@shared_task(name="push.sweep")
def sweep() -> None:
    running.start().sweep()


@shared_task(name="push.report")
def report() -> None:
    reporters.report(now_ms())


@shared_task(name="push.autodrop")
def drop() -> None:
    autodrop.autodrop()


@shared_task(name="push.tidy")
def tidy() -> None:
    now = upkeep_ms()
    while upkeep.drop_old_deliveries(now):
        pass
    while upkeep.drop_old_calls(now):
        pass
    while upkeep.drop_old_failed(now):
        pass
    upkeep.trim_delivered(now)
    upkeep.forget_left(now)
    upkeep.forget_clients(now)
