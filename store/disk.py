"""Checks the free space of the disk before a write.

Only the embedded servers report a full disk beforehand (embedded/servers.py). An external PostgreSQL refuses
writes when its disk is full (database.py).
"""

from __future__ import annotations

import fcntl
import time

from django.conf import settings

from base.errors import StorageFull
from base.locks import is_locked

FULL = "the disk is full: delete data, or make the disk larger"
LOOK_SECONDS = 0.05  # between two checks, because a check makes three system calls, too many for each append


class Disk:
    """The state of the disk at the last check."""

    def __init__(self) -> None:
        self.looked, self.is_full = 0.0, False

    def full(self) -> bool:
        """Returns whether the disk of the embedded servers is full. Then their guard holds a lock."""
        now = time.monotonic()
        if now - self.looked > LOOK_SECONDS:
            try:
                # The check uses a shared lock, so that two simultaneous checks do not mistake each other for the guard.
                self.is_full = is_locked(settings.TOPICS_DATA / "locks" / "full", fcntl.LOCK_SH)
            except OSError:  # without the folder there are no embedded servers
                self.is_full = False
            self.looked = now
        return self.is_full

    def check(self) -> None:
        """Raises StorageFull if the disk is full."""
        if self.full():
            raise StorageFull(FULL)


process = Disk()
check, full = process.check, process.full
