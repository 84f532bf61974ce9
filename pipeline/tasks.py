"""Celery tasks that start jobs. Each job is a separate process, so no worker holds a JVM or waits for a JVM.

The process exits with the worker that started the process. A job can be killed at any time, and continues at its next run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from celery import shared_task
from django.db import connection

from base.clock import now_ms
from base.processes import die_with_parent
from pipeline.runs.running import check
from pipeline.runs.schedules import due
from topics.upkeep.past import upkeep_ms

DAY_MS = 86_400_000
KEPT_DAYS = 7  # for unnamed writes; their last attempt is long over by then
# The oldest unnamed writes are the first ones by id, because such a row changes only while its write lasts. With an index on ts
# each batch of a query would have to write all indexes.
OLD = """
DELETE FROM pipeline_written WHERE id = ANY (ARRAY(
    SELECT id FROM (SELECT id, ts FROM pipeline_written WHERE writer LIKE 'once:%%' ORDER BY id LIMIT 1000) first WHERE ts < %s))
"""

_started: list[subprocess.Popen[bytes]] = []  # polled, so that no exited process stays a zombie


@shared_task(name="pipeline.start_due")
def start_due() -> None:
    """Starts the process that runs due schedules. If such a process already runs, the second process exits at once."""
    with connection.cursor() as cursor:
        cursor.execute(OLD, [upkeep_ms() - KEPT_DAYS * DAY_MS])
    if due(now_ms()):
        start("due")


@shared_task(name="pipeline.run")
def run_job(job: str, options: dict[str, Any]) -> None:
    """Starts a job now, with options like on the command line. Raises InvalidRequest for unknown options."""
    check(job, options)
    start(job, *arguments(options))


def arguments(options: dict[str, Any]) -> list[str]:
    """Converts options to command-line arguments."""
    found = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            found += [option] if each is True else [] if each in (None, False) else [option, str(each)]
    return found


def start(*argv: str) -> None:
    """Starts `manage.py pipeline …`. Its output goes to the worker's log."""
    _started[:] = [each for each in _started if each.poll() is None]
    parent = os.getpid()
    _started.append(
        subprocess.Popen(
            [sys.executable, "-m", "topics_project", "pipeline", *argv],
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: die_with_parent(parent),
        )
    )
