"""Whether the disk has room for records. Only the embedded servers say so beforehand
(topics_project/embedded/servers.py); on servers of one's own PostgreSQL does when it runs out (database.py)."""

from __future__ import annotations

import fcntl
import time

from django.conf import settings

from base.errors import StorageFull
from base.locks import is_locked

LOOK_SECONDS = 0.05  # between two looks: an append should not have to make three calls of the system

_looked, _full = 0.0, False


def check() -> None:
    """Raises StorageFull where records may not be written now."""
    if full():
        raise StorageFull("the disk is full: delete what is no longer needed, or make the disk larger")


def full() -> bool:
    """Whether the guard of the embedded servers holds its lock: their disk is full."""
    global _looked, _full
    now = time.monotonic()
    if now - _looked > LOOK_SECONDS:
        try:
            # Shared: two processes that look at once do not take each other for the guard.
            _full = is_locked(settings.TOPICS_DATA / "locks" / "full", fcntl.LOCK_SH)
        except OSError:  # no such folder: no embedded servers
            _full = False
        _looked = now
    return _full
