"""What releases up to 0.3.0 left in Celery's default queue and in `push`. Other applications in the Redis can have them, too."""

from __future__ import annotations

import json
import logging
from collections.abc import Container
from contextlib import suppress
from typing import Any

import redis

log = logging.getLogger(__name__)
OLD = ("celery", "push")
MOST = 10_000  # messages of a queue that are looked at


def drop_ours(client: redis.Redis, tasks: Container[str]) -> int:
    """Removes the messages of our tasks from the old queues. Returns their number. No work is lost: the sweeps find it."""
    dropped = 0
    for queue in OLD:
        with suppress(redis.ResponseError):  # another application has a key of this name that is no list
            messages: list[Any] = client.lrange(queue, 0, MOST - 1)
            for message in messages:
                if task_of(message) in tasks:
                    dropped += client.lrem(queue, 1, message)
    if dropped:
        log.warning("Removed %d messages of an earlier version from the queues celery and push", dropped)
    return dropped


def task_of(message: bytes) -> str | None:
    """Returns the task of a message of Celery, or None for anything else."""
    try:
        return str(json.loads(message)["headers"]["task"])
    except (ValueError, KeyError, TypeError):
        return None
