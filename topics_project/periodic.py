"""Tasks of Celery. Of a task of beat, a worker runs one message in each interval, however many wait.

Messages wait while no worker runs, and behind work that takes long. Celery's `expires` is a time of day, which a worker would
judge by its own clock. So messages do not expire. A mark in Redis, which ends by itself, says that the task runs or has just run.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from typing import Any

import celery
import redis
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from base import outage, redis_client
from base.errors import NotReady, TopicsError
from store import server_clock
from store.database import translated

SHARE = 0.8  # of the interval, because beat and messages are not exact
LEAST_SHARE = 0.2  # after a run, so that the messages that came meanwhile are skipped, too


@cache
def intervals() -> dict[str, float]:
    """Returns the seconds between two runs of each task of beat."""
    return {entry["task"]: entry["schedule"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}


def mark_of(task: str) -> str:
    return f"{settings.TOPICS_REDIS_PREFIX}ran:{task}"


def is_outage(error: Exception) -> bool:
    """Returns whether a task failed because PostgreSQL or Redis does not work, and notes that."""
    if isinstance(error, BrokerError | redis.RedisError):
        outage.redis.note(error)
        return True
    known = error if isinstance(error, TopicsError) else translated(error)
    if isinstance(known, NotReady):
        outage.postgresql.note(known)
        return True
    return False


class RepeatedTask(celery.Task):
    """A task with PostgreSQL's time. An outage of PostgreSQL or Redis ends it: the next message, or the sweep, finds its work.

    A message of beat is skipped while its task runs or has just run. Without Redis, each message runs.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        seconds = intervals().get(self.name)
        if self.request.called_directly:
            return super().__call__(*args, **kwargs)
        try:
            server_clock.follow()
            result = super().__call__(*args, **kwargs) if seconds is None else self.once(seconds, *args, **kwargs)
        except Exception as error:
            if is_outage(error):
                return None
            raise
        outage.postgresql.over()
        return result

    def once(self, seconds: float, *args: Any, **kwargs: Any) -> Any:
        """`seconds`: the interval of the task."""
        mark, began = mark_of(self.name), time.monotonic()
        client = redis_client.shared(settings.REDIS_URL)
        with suppress(redis.RedisError):
            if not client.set(mark, 1, nx=True, px=int(seconds * SHARE * 1000)):
                return None
        try:
            return super().__call__(*args, **kwargs)
        finally:
            left = max(seconds * SHARE - (time.monotonic() - began), seconds * LEAST_SHARE)
            with suppress(redis.RedisError):
                client.set(mark, 1, px=int(left * 1000))
