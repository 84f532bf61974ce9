"""Celery's entries: forward what was appended, and sweep for what a lost message or a dead worker left behind."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from functools import cache

import redis
from celery import shared_task
from django.conf import settings

from routers.advance import behind, step
from topics import wake
from topics.clock import now_ms

SLICE_SECONDS = 1.0  # of one task: a source that never ends must not keep a worker from the others
CHEAP_SECONDS = 0.0015  # of a round: what is beyond has to be paid for with rest, so that appends keep the cores
REST = 10
MOST_REST_SECONDS = 0.1
FLAG_SECONDS = 5  # a message that vanished blocks no other for longer; the sweep is back sooner anyway


@cache
def client() -> redis.Redis:
    """This worker's connection to Redis, kept from task to task."""
    return redis.Redis.from_url(settings.REDIS_URL)


def flag(source_id: int) -> str:
    return f"topics:advance:{source_id}"


def request_advance(client: redis.Redis, source_ids: Iterable[int]) -> None:
    """Ask a worker to advance these sources' routers: at most one a source waits, or is worked on, at a time."""
    sources = list(source_ids)
    with client.pipeline(transaction=False) as pipeline:
        for source_id in sources:
            pipeline.set(flag(source_id), 1, nx=True, ex=FLAG_SECONDS)
        first = pipeline.execute()
    for source_id, unasked in zip(sources, first, strict=True):
        if unasked:
            advance_source.apply_async((source_id,), ignore_result=True)


def forward(source_id: int) -> list[int]:
    """Advance a source and all that follows from it, and tell who waits for the dests. Answers what is left to advance.

    A source that has more at once waits for a rest first: forwarding must not take the cores from the appends it follows.
    """
    began = time.monotonic()
    until = began + SLICE_SECONDS
    waiting, advanced = deque([source_id]), set[int]()
    while waiting and time.monotonic() < until:
        if waiting[0] in advanced:
            time.sleep(rest(time.monotonic() - began))
            began = time.monotonic()
            advanced.clear()
        advanced.add(waiting[0])
        for move in step(waiting, now_ms()):
            wake.announce(move.topic_id, move.head_seq, routed=False)
    return list(waiting)


def rest(took: float) -> float:
    """Seconds to leave a busy source alone after a round that took so long: a few routers little, a hundred a lot."""
    return min(took + REST * max(took - CHEAP_SECONDS, 0), MOST_REST_SECONDS)


@shared_task(name="routers.advance")
def advance_source(source_id: int) -> None:
    left = forward(source_id)
    # Only now may others ask again. Who was refused until here is found by a last look.
    client().delete(flag(source_id))
    request_advance(client(), left or behind(now_ms(), source_id))


@shared_task(name="routers.sweep")
def sweep() -> None:
    for source_id in behind(now_ms()):
        forward(source_id)  # what is left is still behind at the next sweep
