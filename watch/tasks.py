"""Celery tasks of the streams, started by beat."""

from __future__ import annotations

from celery import shared_task

from base.clock import now_ms
from store.script import run
from watch import sessions


@shared_task(name="topics.sweep_watch_sessions")
def sweep_watch_sessions() -> None:
    """Deletes the sessions that had no stream for too long. The task keeps its old name, because queues may contain the name."""
    run(sessions.sweep(now_ms()))
