"""Resource caps: 429 with `detail.limit` and `detail.max` (docs/wire.md). 0 turns a cap off."""

from __future__ import annotations

from django.conf import settings

from base.errors import Throttled
from wire import memory, metrics
from wire.keys import Key

MOST_IN_FLIGHT = settings.TOPICS_MAX_IN_FLIGHT_PER_KEY  # of a key in a process
MOST_BODIES_BYTES = settings.TOPICS_MAX_BODIES_BYTES  # of all requests in a process
in_flight: dict[str, int] = {}  # requests of each key, or address where none is needed, in this process
held_bytes = 0  # of the bodies of all requests under way in this process


def check(limit: str, most: int, now: int) -> None:
    """Raises Throttled when one more than `now` would be over `most`."""
    if most and now >= most:
        metrics.throttled(limit)
        raise Throttled(f"the limit {limit} of {most} is reached", limit=limit, max=most)


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
        others = in_flight.get(self.id, 0)
        check("in_flight", MOST_IN_FLIGHT, others)
        in_flight[self.id] = others + 1
        return self

    def __exit__(self, *_: object) -> None:
        global held_bytes
        held_bytes -= self.bytes
        if self.bytes >= memory.LARGE_BYTES:
            memory.let_go(self.bytes)
        others = in_flight.pop(self.id) - 1  # addresses would otherwise add up for ever
        if others:
            in_flight[self.id] = others

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
