"""Bodies of requests that a process reads whole: the bound of one body, and that of all bodies at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from base.errors import PayloadTooLarge, Throttled


class ArrivingBody(Protocol):
    """A body that is still arriving (http1.Body). `length`: its announced bytes, if it has any."""

    length: int | None

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class Bodies:
    """The bodies of all requests under way in a process. `bytes`: their sum, at most `most`. 0: no bound."""

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.bytes, self.most = 0, most

    def hold(self, size: int) -> None:
        """Counts another `size` bytes. Raises Throttled if the process holds too many."""
        # Only received bytes count, not announced bytes. So a client that announces much and sends nothing takes no space.
        if self.most and self.bytes + size > self.most:
            raise self.refusal()
        self.bytes += size

    def release(self, size: int) -> None:
        """Counts `size` bytes less."""
        self.bytes -= size

    def refusal(self) -> Throttled:
        why = f"the bodies of current requests have {self.bytes} bytes: try again later"
        return Throttled(why, limit="bodies_bytes", max=self.most)


async def gathered(arriving: ArrivingBody, most: int, hold: Callable[[int], object]) -> bytes:
    """Returns a whole body. `hold` counts the bytes of each part, and can refuse them.

    Raises PayloadTooLarge as soon as the body is known to have more than `most` bytes.
    """
    if arriving.length is not None and arriving.length > most:
        raise too_large(most)
    parts: list[bytes] = []
    size = 0
    async for part in arriving:
        size += len(part)
        if size > most:
            raise too_large(most)
        hold(len(part))
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is too large: expected at most {most} bytes", max=most)
