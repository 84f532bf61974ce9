"""Celery tasks of the queues, started by beat."""

from __future__ import annotations

import time

from celery import shared_task

from base.clock import now_ms
from queues.due import append_due, set_back
from store.script import run

SET_BACK_SECONDS = 3600.0  # between two looks for times that are too late


class SetBacks:
    """When to look for times that are too late: at the first call, each hour, and after a step back of the clock."""

    def __init__(self) -> None:
        self.looked, self.seen = -SET_BACK_SECONDS, 0

    def is_due(self, now: int) -> bool:
        seconds = time.monotonic()
        stepped, self.seen = now < self.seen, now
        if not stepped and seconds - self.looked < SET_BACK_SECONDS:
            return False
        self.looked = seconds
        return True


set_backs = SetBacks()


@shared_task(name="queues.append_due")
def append_due_jobs() -> None:
    """Appends the jobs of schedules that are due."""
    now = now_ms()
    if set_backs.is_due(now):
        run(set_back(now))
    run(append_due(now))
