"""Celery and its beat. Tasks repair lost messages, so no results are stored."""

from typing import Any

from base import redis_client
from topics_project.settings.access import TOPICS_REDIS_PREFIX
from topics_project.settings.address import REDIS_URL
from topics_project.settings.servers import TOPICS_TCP_TIMEOUT_MS

CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # if Redis is down, wait
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 2,
    # Beat and web processes wait for no answer of a Redis that stands still. A worker reads when an answer is there, so its waits
    # for messages may take longer.
    "socket_timeout": 5,
    **redis_client.tcp_timeout(TOPICS_TCP_TIMEOUT_MS),
    "global_keyprefix": TOPICS_REDIS_PREFIX,
}
CELERY_TASK_DEFAULT_QUEUE = "topics"  # Celery's own default is also that of other applications
# Without this setting the worker would reconnect for each task, and plan every statement again.
CELERY_DB_REUSE_MAX = 1000
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_PUBLISH_RETRY = False  # the sweep finds the work of lost messages
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_ROUTES = {"push.*": {"queue": "topics.push"}}  # a separate worker, so that callbacks delay no other task
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False  # printed text is meant for standard output (push/reports/reporters.py)
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "topics_project.operations.beat:Scheduler"


def every(seconds: float, task: str) -> dict[str, Any]:
    """Returns an entry of beat's schedule. Messages that pile up are skipped (periodic.py)."""
    return {"task": task, "schedule": seconds}


CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # A lost wake-up delays forwarding by at most a second, and after a change of a router by a minute.
    "sweep routers": every(1.0, "routers.sweep"),
    # One probe of an index if no schedule is due. A job is appended up to a second after its time.
    "append due jobs": every(1.0, "queues.append_due"),
    "expire": every(2.0, "topics.expire"),
    # Reads the unsettled heads. A topic without appends for 5 s gives back its reserved seqs, 1,000 topics per run.
    "rest": every(5.0, "topics.rest"),
    "reclaim": every(2.0, "topics.reclaim"),
    # A query of a small table. A due job starts in its own process.
    "pipeline": every(10.0, "pipeline.start_due"),
    "report push metrics": every(10.0, "push.report"),
    "autodrop": every(30.0, "push.autodrop"),
    "forget delivered events": every(60.0, "push.tidy"),
    # Wake-ups use Redis and timers. The sweep finds lost wake-ups, and deliveries that a killed worker left behind.
    "sweep deliveries": every(1.0, "push.sweep"),
    # An expired session is refused even before the sweep. The sweep only deletes its row.
    "sweep watch sessions": every(30.0, "topics.sweep_watch_sessions"),
    # Two queries of small tables. A group with a stream ends the sessions of its killed members itself.
    "sweep groups": every(10.0, "groups.sweep"),
    # Twice a minute, so that a late message skips no minute. The second run finds the minute already written.
    "sample": every(30.0, "console.sample"),
    "judge": every(15.0, "console.judge"),
    "thin samples": every(600.0, "console.thin"),
}
