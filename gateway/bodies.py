"""The bound of the bytes of request bodies that a gateway process holds at once.

Filters and routers read bodies whole, so without the bound a few dozen large appends at once would take all memory.
"""

from __future__ import annotations

from base.errors import Throttled
from http1 import Body

MOST_BODIES_BYTES = 256 * 1024 * 1024  # four of the largest bodies, as in a web process of a server


class HeldBodies:
    """The bodies of all requests under way in a process. `bytes`: their sum, as far as they are held."""

    def __init__(self) -> None:
        self.bytes = 0


class HeldBody:
    """The body of one request, as far as the process holds it, also unzipped. `bytes`: its part of all `bodies`."""

    __slots__ = ("bodies", "bytes")

    def __init__(self, bodies: HeldBodies) -> None:
        self.bodies, self.bytes = bodies, 0

    def hold(self, size: int) -> None:
        """Counts another `size` bytes, which arrived or were unzipped. Raises Throttled if the process holds too many."""
        bodies = self.bodies
        if bodies.bytes + size > MOST_BODIES_BYTES:
            raise Throttled(
                f"the bodies of current requests have {bodies.bytes} bytes: send again later",
                limit="bodies_bytes",
                max=MOST_BODIES_BYTES,
            )
        bodies.bytes += size
        self.bytes += size

    def take(self, body: Body) -> bytes:
        """Returns a complete body, and holds it. Raises Throttled."""
        self.hold(body.size)
        return body.take()

    def release(self) -> None:
        """Counts the body no more. A second call changes nothing."""
        self.bodies.bytes -= self.bytes
        self.bytes = 0
