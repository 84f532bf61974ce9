"""Celery's entries: a job is a process of its own, so that no worker holds a JVM, or waits for one.

The process ends with the worker that started it; a job may be killed at any moment, and goes on at its next run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from celery import shared_task

from base.clock import now_ms
from base.processes import die_with_parent
from pipeline.models import Written
from pipeline.running import check
from pipeline.schedules import due

DAY_MS = 86_400_000
KEPT_DAYS = 7  # of a write that nobody named: its last try is over long before

_started: list[subprocess.Popen[bytes]] = []  # looked at so that none stays as a zombie


@shared_task(name="pipeline.start_due")
def start_due() -> None:
    """Start what runs the schedules that are due. Where it runs already, the second one ends at once."""
    Written.objects.filter(writer__startswith="once:", ts__lt=now_ms() - KEPT_DAYS * DAY_MS).delete()
    if due(now_ms()):
        start("due")


@shared_task(name="pipeline.run")
def run_job(job: str, options: dict[str, Any]) -> None:
    """Start a job now, with options as on the command line. Raises InvalidRequest for those that it does not have."""
    check(job, options)
    start(job, *arguments(options))


def arguments(options: dict[str, Any]) -> list[str]:
    """Options as the command line has them."""
    found = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            found += [option] if each is True else [] if each in (None, False) else [option, str(each)]
    return found


def start(*argv: str) -> None:
    """Start `manage.py pipeline …`; what it says is in the worker's log."""
    _started[:] = [each for each in _started if each.poll() is None]
    parent = os.getpid()
    _started.append(
        subprocess.Popen(
            [sys.executable, "-m", "topics_project", "pipeline", *argv],
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: die_with_parent(parent),
        )
    )
