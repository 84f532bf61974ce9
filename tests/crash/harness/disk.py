"""A disk that can be full: a tmpfs that shrinks to what is on it, in a mount namespace that ends with this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from pathlib import Path

CLONE_NEWNS = 0x00020000
MEGABYTES = 1024
TRIES = 20


class NoDisk(Exception):
    """No file system may be mounted here."""


class Disk:
    def __init__(self, folder: Path) -> None:
        """Mount it. Whoever this process starts sees it, and nobody else. Raises NoDisk."""
        self.folder = folder
        if os.geteuid() != 0:
            raise NoDisk("only root may mount a file system")
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
            raise NoDisk(f"no mount namespace of our own: {os.strerror(ctypes.get_errno())}")
        self._mount("--make-rprivate", "/")
        self._mount("-t", "tmpfs", "-o", f"size={MEGABYTES}m,mode=711", "tmpfs", str(folder))

    def fill(self) -> None:
        """Next to nothing is free until there is room again. Raises NoDisk."""
        for _ in range(TRIES):
            used = os.statvfs(self.folder)
            kilobytes = (used.f_blocks - used.f_bfree) * used.f_frsize // 1024
            with contextlib.suppress(NoDisk):  # somebody wrote in between: it cannot be smaller than what is there
                return self._resize(f"{kilobytes + 64}k")
        raise NoDisk(f"{self.folder} grows faster than it can be filled")

    def make_room(self) -> None:
        self._resize(f"{MEGABYTES}m")

    def remove(self) -> None:
        """Whoever still has something open on it keeps that."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False)

    def _resize(self, size: str) -> None:
        self._mount("-o", f"remount,size={size}", str(self.folder))

    def _mount(self, *arguments: str) -> None:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoDisk(f"mount {' '.join(arguments)}: {done.stderr.strip()}")
