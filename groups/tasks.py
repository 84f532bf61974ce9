"""Celery tasks of the groups, started by beat."""

from __future__ import annotations

from celery import shared_task

from base.clock import now_ms
from groups import upkeep
from store.script import run


@shared_task(name="groups.sweep")
def sweep() -> None:
    """Ends the sessions of killed members, and forgets groups that nobody uses."""
    run(upkeep.end_sessions())
    run(upkeep.forget_idle(now_ms()))
