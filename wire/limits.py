"""Resource caps: 429 with `detail.limit` and `detail.max` (contract.md section 9). 0 turns a cap off."""

from __future__ import annotations

import time
from collections import Counter

from django.conf import settings
from django.db.models import Sum

from base.errors import Throttled
from topics.models import Topic, TopicHead
from wire import memory, metrics
from wire.keys import Key

MOST_IN_FLIGHT = settings.TOPICS_MAX_IN_FLIGHT_PER_KEY  # of a key in a process
MOST_BODIES_BYTES = settings.TOPICS_MAX_BODIES_BYTES  # of all requests in a process
in_flight: Counter[str] = Counter()  # requests of each key, or address where none is needed, in this process
held_bytes = 0  # of the bodies of all requests under way in this process
_total = [0.0, 0]  # until when the sum of all bytes counts as fresh, and that sum


def check(limit: str, most: int, now: int) -> None:
    """Raises Throttled when one more than `now` would be over `most`."""
    if most and now >= most:
        metrics.throttled(limit)
        raise Throttled(f"the limit {limit} of {most} is reached", limit=limit, max=most)


def check_topics() -> None:
    if settings.TOPICS_MAX_TOPICS:
        check("topics", settings.TOPICS_MAX_TOPICS, Topic.objects.count())


def check_total_bytes(more: int) -> None:
    """The sum over all topics is a second old at most: a cap against filling disks, not a quota to the byte."""
    most = settings.TOPICS_MAX_TOTAL_BYTES
    if not most:
        return
    if time.monotonic() >= _total[0]:
        _total[:] = [time.monotonic() + 1, TopicHead.objects.aggregate(sum=Sum("bytes"))["sum"] or 0]
    if _total[1] + more > most:
        metrics.throttled("total_bytes")
        raise Throttled(f"the topics hold {_total[1]} bytes of {most}", limit="total_bytes", max=most)


class under_way:
    """Around a request, from before its body is read to its answer.

    Counts the request against its key, in this process, and by hold() the bytes of its body against all bodies that
    this process holds. Who needs no key counts by address: one stranger who sends slowly must not use up what the
    health checks of others need. Raises Throttled when too much is under way.
    """

    __slots__ = ("bytes", "id")

    def __init__(self, key: Key | None, address: str = "") -> None:
        self.id = key.id if key is not None else address
        self.bytes = 0

    def __enter__(self) -> under_way:
        check("in_flight", MOST_IN_FLIGHT, in_flight[self.id])
        in_flight[self.id] += 1
        return self

    def __exit__(self, *_: object) -> None:
        global held_bytes
        held_bytes -= self.bytes
        memory.let_go(self.bytes)
        in_flight[self.id] -= 1
        if not in_flight[self.id]:
            del in_flight[self.id]  # addresses would otherwise add up for ever

    def hold(self, size: int) -> None:
        """Another `size` bytes are kept for this request. Raises Throttled when this process holds too many."""
        global held_bytes
        # Only what came counts, never what was announced: who announces much and sends nothing takes no one's room.
        if MOST_BODIES_BYTES and held_bytes + size > MOST_BODIES_BYTES:
            metrics.throttled("bodies_bytes")
            raise Throttled(
                f"the requests under way hold {held_bytes} bytes", limit="bodies_bytes", max=MOST_BODIES_BYTES
            )
        held_bytes += size
        self.bytes += size
