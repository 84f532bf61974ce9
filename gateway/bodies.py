"""The part of one request of the bodies that a gateway process holds (base/bodies.py).

Filters and routers read bodies whole, so without a bound a few dozen large appends at once would take all memory.
"""

from __future__ import annotations

from base.bodies import Bodies
from http1 import Body

MOST_BODIES_BYTES = 256 * 1024 * 1024  # four of the largest bodies, as in a web process of a server


class HeldBody:
    """The body of one request, as far as the process holds it, also unzipped. `bytes`: its part of all `bodies`."""

    __slots__ = ("bodies", "bytes")

    def __init__(self, bodies: Bodies) -> None:
        self.bodies, self.bytes = bodies, 0

    def hold(self, size: int) -> None:
        """Counts another `size` bytes, which arrived or were unzipped. Raises Throttled if the process holds too many."""
        self.bodies.hold(size)
        self.bytes += size

    def take(self, body: Body) -> bytes:
        """Returns a complete body, and holds it. Raises Throttled."""
        self.hold(body.size)
        return body.take()

    def release(self) -> None:
        """Counts the body no more. A second call changes nothing."""
        self.bodies.release(self.bytes)
        self.bytes = 0
