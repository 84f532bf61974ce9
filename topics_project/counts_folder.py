"""The folder in which the web processes of a run add up their counts (PROMETHEUS_MULTIPROC_DIR, wire/metrics.py).

Each `run web` has a folder of its own, with a lock on it. The web processes inherit the lock, so the kernel releases it when
the last of them has ended, also after a SIGKILL. A start removes the folders without a lock. A pid would not show whether a run
has ended, because the system reuses pids.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from base.locks import lock_folder

# Releases up to 0.3 named their folders topics-metrics-*, without a lock. Those stay, because their runs may use them.
PREFIX = "topics-counts-"


@contextmanager
def counts_folder() -> Iterator[None]:
    """Gives the processes of this run a folder, unless their supervisor has given them one. Removes it at the end."""
    if os.environ.get("TOPICS_SUPERVISED"):
        yield
        return
    remove_abandoned()
    folder, held = make_locked()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def make_locked() -> tuple[Path, int]:
    """Returns a new folder, and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        held = lock_folder(folder)
        # Another start can take the lock, and so the folder, between these two lines.
        if held is not None and folder.exists():
            return folder, held
        if held is not None:
            os.close(held)


def remove_abandoned() -> None:
    """Removes the folders that ended runs of this user have left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        held = lock_folder(folder)
        if held is None:
            continue
        if os.fstat(held).st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
        os.close(held)
