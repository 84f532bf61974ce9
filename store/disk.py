"""Checks the free space of the disk before a write.

Only the embedded servers report a full disk beforehand (topics_project/embedded/servers.py). An external PostgreSQL refuses
writes when its disk is full (database.py).
"""

from __future__ import annotations

import fcntl
import time

from django.conf import settings

from base.errors import StorageFull
from base.locks import is_locked

LOOK_SECONDS = 0.05  # between two checks, because a check makes three system calls, too many for each append

_looked, _full = 0.0, False


def check() -> None:
    """Raises StorageFull if the disk is full."""
    if full():
        raise StorageFull("the disk is full: delete what is no longer needed, or make the disk larger")


def full() -> bool:
    """Returns whether the disk of the embedded servers is full. Then their guard holds a lock."""
    global _looked, _full
    now = time.monotonic()
    if now - _looked > LOOK_SECONDS:
        try:
            # The check uses a shared lock, so that two simultaneous checks do not mistake each other for the guard.
            _full = is_locked(settings.TOPICS_DATA / "locks" / "full", fcntl.LOCK_SH)
        except OSError:  # without the folder there are no embedded servers
            _full = False
        _looked = now
    return _full
