"""Locks on files, which end with the process that holds them: a kill -9 leaves none behind."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def take_lock(path: Path, operation: int) -> int | None:
    """An open descriptor that holds the lock, or None where LOCK_NB found it taken. The kernel lets go of it when
    the descriptor is closed or its process dies, so no lock is ever stale."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path, against: int = fcntl.LOCK_EX) -> bool:
    """Whether somebody holds it in a way that keeps `against` out."""
    descriptor = take_lock(path, against | fcntl.LOCK_NB)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
