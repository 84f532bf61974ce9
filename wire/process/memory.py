"""Returns unused memory to the system. Otherwise the C library keeps it."""

from __future__ import annotations

import ctypes

WORTH_BYTES = 16 * 1024 * 1024  # least memory worth a scan of the whole heap, which stops the process for a moment
LARGE_BYTES = 128 * 1024  # smaller pieces are reused for the next similar request, and leave no holes


class Memory:
    """The memory that this process has released since the last trim."""

    def __init__(self) -> None:
        self.bytes = 0

    def let_go(self, size: int) -> None:
        """Note that a piece of `size` bytes (LARGE_BYTES or more) is no longer in use. Called from the event loop."""
        self.bytes += size

    def give_back(self) -> None:
        """A step of the pulse: let the C library return unused memory, if WORTH_BYTES were released. Works only with glibc."""
        if self.bytes >= WORTH_BYTES:
            self.bytes = 0  # bytes that are released at this moment may not be counted. The next trim returns them.
            trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
            if trim is not None:
                trim(0)


process = Memory()
let_go, give_back = process.let_go, process.give_back
