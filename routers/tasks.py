"""Celery's entries: forward what was appended, and sweep for what a lost message or a dead worker left behind."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from functools import cache

import redis
from celery import shared_task
from django.conf import settings

from base.clock import now_ms
from routers.advance import behind, end_long_pauses, step
from store.database import prepared
from topics import wake

SLICE_SECONDS = 1.0  # of one task: a source that never ends must not keep a worker from the others
REST = 20  # times what a round took: forwarding must not take the cores from the appends it follows
MOST_REST_SECONDS = 0.3
FLOOD = 1000  # records a second: a source that gets fewer needs no rest
FIRST_LOOK_SECONDS, LOOK_SECONDS = 0.002, 0.02  # between two looks at how many it gets
FLAG_SECONDS = 5  # a message that vanished blocks no other for longer; the sweep is back sooner anyway
HELD = b"held"  # a flag that says: somebody else moves this source's routers, until the flag goes by itself
IDLE_MS = 1000  # nobody is asked again for a source whose routers all stand still: until the sweep

HEAD = "SELECT head_seq FROM topics_topichead WHERE topic_id = %s"
RUNNING = "SELECT EXISTS (SELECT FROM routers_router WHERE source_id = %s AND state = 'running')"


@cache
def client() -> redis.Redis:
    """This worker's connection to Redis, kept from task to task."""
    return redis.Redis.from_url(settings.REDIS_URL)


def flag(source_id: int) -> str:
    return f"topics:advance:{source_id}"


def request_advance(client: redis.Redis, source_ids: Iterable[int]) -> set[int]:
    """Ask a worker to advance these sources' routers: at most one a source waits, or is worked on, at a time.

    Returns the sources that are busy: a worker was asked before, and looks at them again when it is through.
    """
    sources = list(source_ids)
    with client.pipeline(transaction=False) as pipeline:
        for source_id in sources:
            pipeline.set(flag(source_id), 1, nx=True, ex=FLAG_SECONDS)
        first = pipeline.execute()
    busy = set()
    for source_id, unasked in zip(sources, first, strict=True):
        if unasked:
            advance_source.apply_async((source_id,), ignore_result=True)
        else:
            busy.add(source_id)
    return busy


def forward(source_id: int) -> list[int]:
    """Advance a source and all that follows from it, and tell who waits for the dests. Returns what is left to advance.

    A source that has more at once waits for a rest first.
    """
    began = time.monotonic()
    until = began + SLICE_SECONDS
    waiting, advanced = deque([source_id]), set[int]()
    while waiting and time.monotonic() < until:
        if waiting[0] in advanced:
            rest(waiting[0], time.monotonic() - began)
            began = time.monotonic()
            advanced.clear()
        advanced.add(waiting[0])
        for move in step(waiting, now_ms()):
            wake.announce(move.topic_id, move.head_seq, routed=False)
    return list(waiting)


def rest(source_id: int, took: float) -> None:
    """Leave a flooded source alone after a round that took so long: a few routers little, a hundred a lot."""
    until = time.monotonic() + min(REST * took, MOST_REST_SECONDS)
    pause, head = FIRST_LOOK_SECONDS, head_of(source_id)
    while time.monotonic() < until:
        time.sleep(pause)
        seen, head = head, head_of(source_id)
        if head - seen < FLOOD * pause:
            return
        pause = LOOK_SECONDS


def head_of(source_id: int) -> int:
    found = prepared(HEAD, [source_id])
    return int(found[0][0]) if found else 0  # deleted just now


@shared_task(name="routers.advance")
def advance_source(source_id: int) -> None:
    if client().get(flag(source_id)) == HELD:
        return
    left = forward(source_id)
    if not left and not prepared(RUNNING, [source_id])[0][0]:
        client().pexpire(flag(source_id), IDLE_MS)
        return
    # Only now may others ask again. Who was refused until here is found by a last look.
    client().delete(flag(source_id))
    request_advance(client(), left or behind(now_ms(), source_id))


@shared_task(name="routers.sweep")
def sweep() -> None:
    end_long_pauses(now_ms())
    for source_id in behind(now_ms()):
        forward(source_id)  # what is left is still behind at the next sweep
