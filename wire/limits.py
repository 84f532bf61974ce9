"""Resource caps: 429 with `detail.limit` and `detail.max` (docs/wire.md). 0 turns a cap off."""

from __future__ import annotations

from django.conf import settings

from base.errors import Throttled
from wire import memory, metrics

MOST_IN_FLIGHT = settings.TOPICS_MAX_IN_FLIGHT_PER_KEY  # of a key in a process
MOST_BODIES_BYTES = settings.TOPICS_MAX_BODIES_BYTES  # of all requests in a process
in_flight: dict[str, int] = {}  # requests of each holder in this process
SOON, LATER = 1, 60  # seconds: requests and streams end by themselves; topics and routers stay until they are deleted
held_bytes = 0  # of the bodies of all requests under way in this process


def check(limit: str, most: int, now: int, retry_after: int = SOON) -> None:
    """Raises Throttled when one more than `now` would be over `most`."""
    if most and now >= most:
        metrics.throttled(limit)
        raise Throttled(f"the limit {limit} of {most} is reached", limit=limit, max=most, retry_after=retry_after)


class under_way:
    """Around a request, from before its body is read to its answer.

    Counts the request against its holder in this process, and by hold() the bytes of its body against all bodies that this
    process holds. The holder is a key, or an address where no key is needed: one stranger that sends slowly must not use up
    what the health checks of others need. Raises Throttled when too much is under way.
    """

    __slots__ = ("bytes", "holder")

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.bytes = 0

    def __enter__(self) -> under_way:
        others = in_flight.get(self.holder, 0)
        check("in_flight", MOST_IN_FLIGHT, others)
        in_flight[self.holder] = others + 1
        return self

    def __exit__(self, *_: object) -> None:
        global held_bytes
        held_bytes -= self.bytes
        if self.bytes >= memory.LARGE_BYTES:
            memory.let_go(self.bytes)
        others = in_flight.pop(self.holder) - 1  # addresses would otherwise add up for ever
        if others:
            in_flight[self.holder] = others

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
