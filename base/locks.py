"""Locks on files and folders. The kernel releases a lock when its process ends, also after kill -9."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def take_lock(path: Path, operation: int) -> int | None:
    """Returns an open descriptor that holds the lock, or None if the lock is taken and `operation` has LOCK_NB.

    The kernel releases the lock when the descriptor is closed or the process dies. So a lock is never stale.
    """
    return locked(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), operation)


def lock_folder(folder: Path) -> int | None:
    """Returns an open descriptor that holds the lock on a folder, or None if it is taken, or if no such folder can be opened.

    systemd-tmpfiles spares a folder with a lock, however old its files are.
    """
    try:
        return locked(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None


def locked(descriptor: int, operation: int) -> int | None:
    """Returns the descriptor when it holds the lock. Otherwise closes it, and returns None if the lock is taken."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def is_locked(path: Path, against: int = fcntl.LOCK_EX) -> bool:
    """Returns whether another descriptor holds a lock that conflicts with `against`."""
    descriptor = take_lock(path, against | fcntl.LOCK_NB)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
