"""Memory that was needed for a while is given back to the system: the C library keeps it for itself otherwise."""

from __future__ import annotations

import ctypes

WORTH_BYTES = 16 * 1024 * 1024  # a look at the whole heap holds everybody up for a moment: not for less
LARGE_BYTES = 128 * 1024  # smaller pieces are used again for the next request of the kind, and leave no holes
_let_go = 0


def let_go(size: int) -> None:
    """So many bytes in one piece, LARGE_BYTES or more, were in use and are no longer. Called from the event loop."""
    global _let_go
    _let_go += size


def give_back() -> None:
    """A step of the pulse: have the C library return what was let go, when it is worth it. Only glibc knows how."""
    global _let_go
    if _let_go >= WORTH_BYTES:
        _let_go = 0  # what is let go at this very moment may be missed, and is found with the next lot
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
