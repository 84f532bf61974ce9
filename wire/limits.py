"""Resource caps: 429 with `detail.limit` and `detail.max` (docs/wire.md). 0 turns a cap off."""

from __future__ import annotations

from django.conf import settings

from base.bodies import Bodies
from base.errors import Throttled
from wire import metrics
from wire.process import memory

MOST_IN_FLIGHT = settings.TOPICS_MAX_IN_FLIGHT_PER_KEY  # requests of a key in a process
in_flight: dict[str, int] = {}  # requests of each holder in this process
# Seconds for Retry-After. Requests and streams end by themselves. Topics and routers stay until somebody deletes them.
SOON, LATER = 1, 60


class ServerBodies(Bodies):
    """The bodies of a web process, with a metric of refusals. The memory of large bodies returns to the system."""

    __slots__ = ()

    def refusal(self) -> Throttled:
        error = super().refusal()
        metrics.throttled(error.detail["limit"])
        return error

    def release(self, size: int) -> None:
        self.bytes -= size
        if size >= memory.LARGE_BYTES:
            memory.let_go(size)


bodies = ServerBodies(settings.TOPICS_MAX_BODIES_BYTES)


def check(limit: str, most: int, now: int, retry_after: int = SOON) -> None:
    """Raises Throttled if one more than `now` would exceed `most`."""
    if most and now >= most:
        metrics.throttled(limit)
        raise Throttled(
            f"the cap of {most} is reached ({limit}): try again later", limit=limit, max=most, retry_after=retry_after
        )


class under_way:
    """Counts a request, from before its body is read until its answer. Raises Throttled if a cap is reached.

    The request counts against its holder in this process. hold() counts the bytes of its body against all bodies in this
    process. The holder is a key, or an address if no key is needed. So one slow stranger cannot use up the requests that other
    clients need for health checks.
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
        if self.bytes:
            bodies.release(self.bytes)
        others = in_flight.pop(self.holder) - 1  # removed at 0, because addresses would otherwise accumulate
        if others:
            in_flight[self.holder] = others

    def hold(self, size: int) -> None:
        """Count another `size` bytes that this request keeps. Raises Throttled if this process holds too many."""
        bodies.hold(size)
        self.bytes += size
