"""The bound of the bytes of request bodies that a process holds at once."""

from __future__ import annotations

from base.errors import Throttled


class Bodies:
    """The bodies of all requests under way in a process. `bytes`: their sum, at most `most`. 0: no bound."""

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.bytes, self.most = 0, most

    def hold(self, size: int) -> None:
        """Counts another `size` bytes. Raises Throttled if the process holds too many."""
        # Only received bytes count, not announced bytes. So a client that announces much and sends nothing takes no space.
        if self.most and self.bytes + size > self.most:
            raise Throttled(
                f"the bodies of current requests have {self.bytes} bytes: try again later",
                limit="bodies_bytes",
                max=self.most,
            )
        self.bytes += size

    def release(self, size: int) -> None:
        """Counts `size` bytes less."""
        self.bytes -= size
