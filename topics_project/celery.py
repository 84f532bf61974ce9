"""The Celery app and its beat schedule (settings.CELERY_BEAT_SCHEDULE). Tasks live in each app's tasks.py."""

import os
from typing import Any

from celery import Celery
from celery.signals import task_prerun, worker_process_init
from django.conf import settings
from django.db import close_old_connections

from topics_project.children import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")

app = Celery("topics")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()  # for every thread: otherwise it counts in this one alone, and others publish to a broker of nobody's


@task_prerun.connect
def mend_connection(**_: Any) -> None:
    """As Django does before a request: a kept connection that PostgreSQL has closed is replaced, not used."""
    close_old_connections()


@worker_process_init.connect
def limit_connections(**_: Any) -> None:
    """Nothing that the pool's processes do in the background may hold a lock for ever, or wait for one."""
    from topics import timeouts  # Django is set up by now

    timeouts.serve("worker", settings.TOPICS_WORKER_STATEMENT_TIMEOUT_MS)


@worker_process_init.connect
def follow_parent(**_: Any) -> None:
    """The pool's processes are forks, and a fork does not inherit what its parent asked the kernel for."""
    if os.environ.get("TOPICS_SUPERVISED"):
        die_with_parent()
