"""Celery tasks of the queues, started by beat."""

from __future__ import annotations

from celery import shared_task

from base.clock import now_ms
from queues.due import append_due
from store.script import run


@shared_task(name="queues.append_due")
def append_due_jobs() -> None:
    """Appends the jobs of schedules that are due."""
    run(append_due(now_ms()))
