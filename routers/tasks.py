"""Celery tasks: forward new records, and sweep up after lost messages and crashed workers."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterable

import redis
from celery import shared_task
from django.conf import settings

from base import redis_client
from base.clock import now_ms
from routers.advance import behind, behind_unsettled, end_long_pauses
from routers.traced import traced_step
from store.database import prepared
from topics import wake
from topics.heads import HEAD

SLICE_SECONDS = 1.0  # length of one task: a source with endless appends must leave the worker time for other sources
REST = 20  # length of a pause: REST times the length of a round, so that forwarding leaves the cores to appends
MOST_REST_SECONDS = 0.3
FLOOD = 1000  # records per second: a source with fewer needs no pause
FIRST_LOOK_SECONDS, LOOK_SECONDS = 0.002, 0.02  # between two measurements of the source's rate
FLAG_SECONDS = 5  # a lost message blocks other messages for at most this long, and the sweep runs sooner anyway
HELD = b"held"  # value of a flag: another process advances this source's routers until the flag expires
WHOLE_LOOK_SECONDS = 60.0  # between two looks of the sweep at all routers
IDLE_MS = 1000  # a source without running routers gets no new task for this long. The sweep checks it meanwhile

RUNNING = "SELECT EXISTS (SELECT FROM routers_router WHERE source_id = %s AND state = 'running')"


def flag(source_id: int) -> str:
    return f"{settings.TOPICS_REDIS_PREFIX}advance:{source_id}"


def request_advance(client: redis.Redis, source_ids: Iterable[int]) -> set[int]:
    """Asks a worker to advance these sources' routers. At most one message per source waits or is worked on at a time.

    Returns the busy sources: a worker was asked before, and will look at them again at the end.
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
    """Advances a source and everything downstream, and wakes the readers of the dests. Returns the sources left to advance.

    If a source has more records at once, it pauses first.
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
        for move in traced_step(waiting, now_ms()):
            wake.announce(move.topic_id, move.head_seq, routed=False)
    return list(waiting)


def rest(source_id: int, took: float) -> None:
    """Pauses after a round of `took` s on a flooded source: short for a few routers, long for a hundred."""
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
    return int(found[0][0]) if found else 0  # the topic was deleted meanwhile


@shared_task(name="routers.advance")
def advance_source(source_id: int) -> None:
    client = redis_client.shared(settings.REDIS_URL)
    if client.get(flag(source_id)) == HELD:
        return
    left = forward(source_id)
    if not left and not prepared(RUNNING, [source_id])[0][0]:
        client.pexpire(flag(source_id), IDLE_MS)
        return
    # From here on, other processes can ask again. A last check finds appends whose request was refused until now.
    client.delete(flag(source_id))
    request_advance(client, left or behind(now_ms(), source_id))


class Sweeps:
    """Finds the sources that are left to advance. Looks at the sources with new records, and once a minute at all routers,
    because a message about a router that was created, resumed or set back can be lost, too."""

    def __init__(self) -> None:
        self.whole_seconds = -WHOLE_LOOK_SECONDS  # of the last look at all routers, by the monotonic clock

    def left(self) -> list[int]:
        if (now := time.monotonic()) - self.whole_seconds < WHOLE_LOOK_SECONDS:
            return behind_unsettled(now_ms())
        self.whole_seconds = now
        end_long_pauses(now_ms())
        return behind(now_ms())


sweeps = Sweeps()


@shared_task(name="routers.sweep")
def sweep() -> None:
    left = sweeps.left()
    # A source fails while another client holds the head of a dest. Then the next sweep reaches other sources.
    random.shuffle(left)
    for source_id in left:
        forward(source_id)  # the next sweep finds the rest
